"""Queue offsets as JSON, in options, in Spark's checkpoints and in the marks of tables.

A queue is written `brokerName:queueId` within its topic: {"flights": {"broker-a:0": 12}}. Spark
compares offsets as texts, so queues are always written in the same order.
"""

from collections.abc import Mapping
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue

Offsets = dict[MessageQueue, int]


def queue_text(queue: MessageQueue) -> str:
    """Return `brokerName:queueId`."""
    return f"{queue.broker_name}:{queue.queue_id}"


def parse_queue(topic: str, text: str) -> MessageQueue:
    """Parse `brokerName:queueId` of `topic`; raises `UsageError` for another text."""
    broker_name, _, number = text.rpartition(":")
    if not broker_name or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise UsageError(f"{text!r} is not a queue; write brokerName:queueId, as broker-a:0")
    return MessageQueue(topic, broker_name, int(number))


def by_topic(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, int]]:
    """Return offsets by topic and queue text for JSON, sorted."""
    table: dict[str, dict[str, int]] = {}
    for queue in sorted(offsets):
        table.setdefault(queue.topic, {})[queue_text(queue)] = offsets[queue]
    return table


def from_topics(table: Any, low: int = 0) -> Offsets:
    """Convert the table of `by_topic` back to offsets.

    Raises `UsageError` for another kind of value, or an offset below `low`.
    """
    if not isinstance(table, dict):
        raise UsageError(f"offsets must be an object by topic, not {str(table)[:80]!r}")
    offsets: Offsets = {}
    for topic, queues in table.items():
        if not isinstance(queues, dict):
            raise UsageError(f"offsets of topic {topic} must be an object by queue")
        for text, offset in queues.items():
            offsets[parse_queue(topic, text)] = check_offset(topic, text, offset, low)
    return offsets


def check_offset(topic: str, queue: str, offset: Any, low: int) -> int:
    """Return `offset` if it is a whole number of at least `low`; else raise `UsageError`."""
    if isinstance(offset, bool) or not isinstance(offset, int) or not low <= offset < 2**63:
        raise UsageError(f"{offset!r} is not an offset for queue {queue} of topic {topic}")
    return offset
