"""Escape bridge: forwards an acting master's writes to living masters of other groups."""
