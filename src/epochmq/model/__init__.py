"""Messages, queues, topics and groups, and their encodings; values without clock, disk
or network.
"""
