"""The simulated machines, network, time and disks, and how a history is played."""
