"""The same program for other systems and for EpochMQ, in pairs."""
