"""L3: the only package that touches real time, disks, sockets, threads, signals and chance."""
