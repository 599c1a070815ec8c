"""The world of queue locks and name servers, and its checkers."""
