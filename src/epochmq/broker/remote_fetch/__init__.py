"""Messages that lie in other groups' queues."""
