"""Sends: checks, staging, batches, and their answers."""
