"""A cluster of real processes on this machine, kept in one directory: for `dev` and `demo`."""
