"""Tests of the runtime, over real loopback sockets where sockets matter."""
