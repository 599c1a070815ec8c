"""The world of delayed, transactional and POP messages, and its checkers."""
