"""Deterministic simulation of the world that EpochMQ runs in."""
