"""The JSON bodies of requests and responses, one module for each group of requests."""
