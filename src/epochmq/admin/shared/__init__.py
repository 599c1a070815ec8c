"""What all commands share: output, exit codes, figures, and how a cluster is asked."""
