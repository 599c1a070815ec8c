"""Transactional messages: half messages, their ends, and checks with the producer."""
