"""The decisions of the client: plain code without clock, sockets and tasks."""
