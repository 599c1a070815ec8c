"""The command line (layer L5): one file per command; `cli` imports a command when it is used."""
