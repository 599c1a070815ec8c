"""What groups have taken of queues and not yet committed."""
