"""Several brokers in one process, behind one port for adding and removing them (ADR 0052)."""
