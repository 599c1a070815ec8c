"""L0: words, ports, errors and limits that every other layer shares."""
