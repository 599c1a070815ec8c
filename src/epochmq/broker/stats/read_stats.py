"""What groups read of queues, added up where they read and handed to the statistics once a tick."""


class QueueReads:
    """One group's reads of one queue since the last tick, and how far it has read."""

    __slots__ = ("bytes", "key", "messages", "next_offset", "times", "used")

    def __init__(self, topic: str, queue_id: int, group: str) -> None:
        self.key = topic, queue_id, group
        self.used = False
        """Whether something is to be handed over."""
        self.times = self.messages = self.bytes = 0
        self.next_offset = 0
        """Behind the last message that was handed out; 0 while none was."""
