"""What the client decides, without a clock, a socket or a task."""
