"""The world of Raft groups, and its checkers."""
