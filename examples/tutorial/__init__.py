"""The programs of the tutorial."""
