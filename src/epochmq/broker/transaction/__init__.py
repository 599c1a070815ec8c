"""Transactional messages: half messages, their ends, and asking producers that stay silent."""
