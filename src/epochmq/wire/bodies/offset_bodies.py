"""Bodies about offsets, consume queues and digests of logs."""

from msgspec import UNSET, UnsetType

from epochmq.model.group import SubscriptionData
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import Body, MaybeText, camel_but

# Offset bodies -------------------------------------------------------------------------------
# Tables of offsets for slaves, and resets of offsets for clients.


class ResetOffsetBody(Body):
    """New queue offsets, keyed by queue: sent to Java clients by 220, and the answer to 222."""

    offset_table: dict[str, int] = {}


class QueueOffsetEntry(Body):
    """The new offset of one queue."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int

    @property
    def queue(self) -> MessageQueue:
        """The queue of this entry."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


class ResetOffsetListBody(Body):
    """New queue offsets for C++ clients (language CPP), which cannot read objects as keys."""

    offset_table: list[QueueOffsetEntry] = []


class ConsumerStatusBody(Body):
    """Answer to 221 (`message_queue_table`, keyed by queue) and to 223 (by client id,
    then queue).
    """

    message_queue_table: dict[str, int] = {}
    consumer_table: dict[str, dict[str, int]] = {}


# Consume queue bodies ------------------------------------------------------------------------
# Bodies of QUERY_CONSUME_QUEUE 321.


class ConsumeQueueData(Body, rename=camel_but(evaluated="eval")):
    """One unit of a consume queue: commit log offset, size in bytes and tag hash of its record."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: MaybeText = UNSET
    bit_map: MaybeText = UNSET
    evaluated: bool = False
    msg: MaybeText = UNSET


class QueryConsumeQueueBody(Body):
    """Answer to 321: units from the index asked for, and the first and last index of the queue."""

    queue_data: list[ConsumeQueueData] = []
    min_queue_index: int = 0
    max_queue_index: int = 0
    subscription_data: SubscriptionData | UnsetType | None = UNSET
    filter_data: MaybeText = UNSET


# Bulk bodies ---------------------------------------------------------------------------------
# Bodies of EpochMQ's requests for data pipelines: 34004, 34005, 34013.


class EpochOffsets(Body):
    """Answer to EPOCH_OFFSETS 34004: by queue id, the first queue offset at or after the start of
    the epoch.
    """

    offsets: dict[str, int] = {}


class KeyPlacesBody(Body):
    """Answer to KEY_PLACES 34013: by queue id, a range of queue offsets (first, end) and the
    offsets in it, and perhaps before it, that may have the key.

    No other offset of the range has the key. Queues that are left out were not searched; there are
    none if the index does not have all messages, or if there are too many.
    """

    queues: dict[str, tuple[int, int, list[int]]] = {}


class EpochSpan(Body):
    """The master of `epoch` wrote the bytes `[start, end)` of the commit log."""

    epoch: int
    start: int
    end: int


class LogDigests(Body):
    """Answer to LOG_DIGESTS 34005. A block is (log offset, bytes, BLAKE2b-128 in hexadecimal).

    The blocks end before the first of the `damaged` ranges [start, end) of the log, whose bytes are
    not returned until they are repaired. Older versions do not send these ranges.
    """

    confirmed: int = 0
    start: int = 0
    epochs: list[EpochSpan] = []
    blocks: list[tuple[int, int, str]] = []
    damaged: list[tuple[int, int]] = []
