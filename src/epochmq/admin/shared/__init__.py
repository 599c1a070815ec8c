"""The common parts of all commands: output, exit codes, figures, and requests to a cluster."""
