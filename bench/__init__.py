"""Benchmarks beside a peer in the same run; ratios and CPU per message, never assertions."""
