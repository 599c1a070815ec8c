"""What a broker may do in its role, and when a message counts as stored."""
