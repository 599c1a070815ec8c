"""Handlers of sends (produce): checks, staging, batches, and the answers to producers."""
