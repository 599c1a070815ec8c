"""The acting world with disks that fail."""
