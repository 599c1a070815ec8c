"""Tests of the name server."""
