"""`epochmq top`: shows masters, replicas in sync, and recent changes."""
