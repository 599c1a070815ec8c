"""RocketMQ's remoting protocol: frames, headers, bodies and codes, without any I/O."""
