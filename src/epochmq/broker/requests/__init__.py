"""Handlers of requests, the table of all requests, and the permission to execute them."""
