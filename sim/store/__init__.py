"""The world of one store, and its checkers."""
