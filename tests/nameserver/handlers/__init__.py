"""Tests of the name server's handlers: requests in, replies out, no socket."""
