"""Bodies about offsets, consume queues and messages."""

from msgspec import UNSET, UnsetType

from epochmq.model.group import SubscriptionData
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import Body, MaybeText, camel_but

# Offset bodies -------------------------------------------------------------------------------
# Bodies about offsets: tables for a slave, resets pushed to clients.


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


# Query bodies --------------------------------------------------------------------------------
# Bodies of looking into a consume queue: QUERY_CONSUME_QUEUE 321.


class ConsumeQueueData(Body, rename=camel_but(evaluated="eval")):
    """One unit of a consume queue: byte position, size and tag hash of its record."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: MaybeText = UNSET
    bit_map: MaybeText = UNSET
    evaluated: bool = False
    msg: MaybeText = UNSET


class QueryConsumeQueueBody(Body):
    """Answer to 321: units from the asked index, and the queue's bounds."""

    queue_data: list[ConsumeQueueData] = []
    min_queue_index: int = 0
    max_queue_index: int = 0
    subscription_data: SubscriptionData | UnsetType | None = UNSET
    filter_data: MaybeText = UNSET


# Bulk bodies ---------------------------------------------------------------------------------
# Bodies of our own requests for data pipelines: 34004, 34005.


class EpochOffsets(Body):
    """Answer to EPOCH_OFFSETS 34004: by queue id the first queue offset at or behind the epoch's
    start."""

    offsets: dict[str, int] = {}


class EpochSpan(Body):
    """Bytes `[start, end)` of the log were written by the master of `epoch`."""

    epoch: int
    start: int
    end: int


class LogDigests(Body):
    """Answer to LOG_DIGESTS 34005: a block is (log offset, bytes, BLAKE2b-128 in hexadecimal)."""

    confirmed: int = 0
    start: int = 0
    epochs: list[EpochSpan] = []
    blocks: list[tuple[int, int, str]] = []
