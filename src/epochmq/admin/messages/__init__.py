"""Messages as lines: what `produce` reads and `consume` prints."""
