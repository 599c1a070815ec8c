"""`epochmq mqadmin`: RocketMQ's own tool, command by command, with its options and its output."""
