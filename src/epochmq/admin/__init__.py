"""L5: the command line. One file a command; `cli` names them all and imports them when used."""
