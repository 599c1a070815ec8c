"""Peers as real processes, upstream's Java ones and our own, behind one interface."""
