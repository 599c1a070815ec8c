"""What was popped and never acknowledged becomes visible again."""
