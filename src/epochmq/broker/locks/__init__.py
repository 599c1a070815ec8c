"""Queue locks for consumers that must keep order."""
