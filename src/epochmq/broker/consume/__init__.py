"""Consumers: clients, offsets, filters, locks, queues, and requests that wait for messages."""
