"""Plain replication, without a controller, as before RIP-44: one fixed master and its slaves."""
