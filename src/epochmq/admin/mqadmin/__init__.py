"""`epochmq mqadmin`: the commands of RocketMQ's admin tool, with its options and output."""
