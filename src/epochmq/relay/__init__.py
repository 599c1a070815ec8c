"""Relay: one address for the master of a broker group, whichever broker that is (ADR 0082)."""
