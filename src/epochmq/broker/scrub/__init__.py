"""Old parts of the log are searched for damage, and repaired by the bytes of another replica."""
