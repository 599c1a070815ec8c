"""Deterministic simulation of hosts, disks, clocks and the network in which EpochMQ runs."""
