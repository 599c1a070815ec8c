"""The controller process: its node, its connections, and its links to other controllers."""
