"""What the broker knows of itself: topics, subscription groups, and their files."""
