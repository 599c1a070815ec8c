"""L2: the remoting protocol as values, without any I/O (facts/remoting.md sections 1 to 3)."""
