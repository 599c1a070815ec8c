"""Work that takes too long for the loop and touches none of its state."""
