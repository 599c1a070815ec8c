"""Comparing the log with other replicas, block by block, and repairing it."""
