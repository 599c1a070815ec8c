"""The world of acting masters, and its checkers."""
