"""Messages as lines of text, as `produce` reads and `consume` prints them."""
