"""What a replica copies from its master beside the log: topics, groups, offsets, delays."""
