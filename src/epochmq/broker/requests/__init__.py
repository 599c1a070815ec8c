"""Handlers of the broker's requests, the table of request codes, and the check of roles."""
