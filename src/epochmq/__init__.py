"""EpochMQ: a highly available message broker that speaks the RocketMQ 5 remoting protocol."""

__version__ = "0.1.0.dev0"
