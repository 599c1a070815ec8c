"""One queue of one topic on one broker group."""

import msgspec


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel", cache_hash=True):
    """Ordered by topic, broker name, queue id: the order that rebalance agrees on (5.3)."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
