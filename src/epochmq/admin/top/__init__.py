"""`epochmq top`: who is master of what, which replicas are in sync, and what just happened."""
