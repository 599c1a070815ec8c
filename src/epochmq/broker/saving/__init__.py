"""Writing tables to their files without holding up the loop."""
