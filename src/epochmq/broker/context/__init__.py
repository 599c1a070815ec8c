"""The state of one broker."""
