"""Young check points in memory: what is acknowledged at once is never written."""
