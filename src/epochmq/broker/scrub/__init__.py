"""Scrub: searches the log for damage, compares it with other replicas, and repairs it."""
