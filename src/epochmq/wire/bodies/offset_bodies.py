"""Bodies about offsets: tables for a slave, resets pushed to clients."""

from epochmq.model.data_version import DataVersion
from epochmq.model.queue import MessageQueue
from epochmq.wire.bodies.body import Body


class ConsumerOffsetTable(Body):
    """Answer to GET_ALL_CONSUMER_OFFSET 43: "topic@group", queue id, queue offset."""

    offset_table: dict[str, dict[int, int]] = {}
    data_version: DataVersion = DataVersion()


class DelayOffsetTable(Body):
    """Answer to GET_ALL_DELAY_OFFSET 45: queue offset by delay level."""

    offset_table: dict[int, int] = {}
    data_version: DataVersion = DataVersion()


class ResetOffsetBody(Body):
    """New queue offsets, keyed by queue: 220 to Java clients and the answer to 222."""

    offset_table: dict[str, int] = {}


class QueueOffsetEntry(Body):
    """One queue's new offset, flat."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


class ResetOffsetListBody(Body):
    """The same for C++ clients (language CPP), who cannot read object keys."""

    offset_table: list[QueueOffsetEntry] = []


class ConsumerStatusBody(Body):
    """Answer to 221 (`message_queue_table`, by queue) and to 223 (by client id, then queue)."""

    message_queue_table: dict[str, int] = {}
    consumer_table: dict[str, dict[str, int]] = {}
