"""What the broker counts: messages and bytes by topic, group and queue, and rates."""
