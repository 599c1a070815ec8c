"""The world of broker groups in controller mode, and its checkers."""
