"""Replication without a controller, as before RIP-44: one fixed master, slaves that copy it."""
