"""The world of controllers and brokers without logs, and its checkers."""
