"""L4: the name server: who is alive, which topics they have, and the key-value configuration."""
