"""The JSON bodies of requests and responses, by family."""
