"""Which queues a client is to consume, and how, when it asks its broker instead of reckoning."""
