"""Who is connected: consumer groups and producer groups, by their heartbeats."""
