"""The world of ordered POP, and its checker."""
