"""Consumers: clients, consumer offsets, filters, queue locks, queue assignment, long polling."""
