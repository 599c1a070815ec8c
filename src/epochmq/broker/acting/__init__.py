"""Standing in for a master that is gone (RIP-32): the broker's half, without controllers."""
