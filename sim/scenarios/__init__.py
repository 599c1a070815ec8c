"""One file a story: a named script on the simulated world with one expected property."""
