"""The controller process: its node, its connections, its Raft links."""
