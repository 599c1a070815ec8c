"""The command groups `topic`, `group`, `message` and `cluster`."""
