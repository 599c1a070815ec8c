"""L2: the remoting protocol as values, without any I/O (sections 1 to 3)."""
