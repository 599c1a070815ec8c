"""Writes that go to a living master of another group, where this broker may not write."""
