"""L2: the log and what is derived from it, over the Disk port; knows no role and no network."""
