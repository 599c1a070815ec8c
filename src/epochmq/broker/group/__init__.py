"""The broker's place in its group: membership, registration, metadata sync, acting master."""
