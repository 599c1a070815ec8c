"""Ordered POP: which batch of a queue is out, and until when it blocks."""
