"""SQL92 filters of subscriptions, compiled once and kept."""
