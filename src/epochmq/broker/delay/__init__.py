"""Delayed messages: by level, and for an exact time."""
