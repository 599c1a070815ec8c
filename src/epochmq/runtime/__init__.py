"""Layer L3: the only package with real time, disks, sockets, threads, signals and randomness."""
