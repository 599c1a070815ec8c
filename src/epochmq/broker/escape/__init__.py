"""What a slave that stands in for its master must write goes to a living master (RIP-32)."""
