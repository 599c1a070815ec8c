"""L3: the log from master to followers: frames, the sync-state set, acknowledgements, transfer."""
