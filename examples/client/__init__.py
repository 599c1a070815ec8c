"""Programs that use EpochMQ's Python clients; README and docs/TESTING.md show them."""
