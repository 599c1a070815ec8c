"""A broker in its group: membership, registration, copied tables, acting masters."""
