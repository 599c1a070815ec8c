"""L4: the broker: takes messages in, hands them out, and keeps what its clients need to know."""
