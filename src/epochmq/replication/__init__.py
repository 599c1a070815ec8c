"""Replication of the log from master to followers: frames, sync-state set, acknowledgements."""
