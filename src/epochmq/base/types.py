"""The words of the house as types: a byte offset is never a queue offset (design.md section 4)."""

from typing import NewType

Offset = NewType("Offset", int)
"""A byte position in the commit log."""

QueueOffset = NewType("QueueOffset", int)
"""An index in one queue of one topic."""

Epoch = NewType("Epoch", int)
"""A master's epoch; rises with each elected master of a broker group."""

Term = NewType("Term", int)
"""Raft's term; never an epoch."""

BrokerId = NewType("BrokerId", int)
"""0 is the master in routes; replicas carry their own id."""

QueueId = NewType("QueueId", int)
"""Number of a queue inside a topic on one broker, from 0."""

Millis = NewType("Millis", int)
"""Milliseconds; monotonic unless the name says `wall`."""

Buffer = bytes | bytearray | memoryview
"""What may be written: anything that holds bytes."""
