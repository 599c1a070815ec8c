"""Which queue a row goes to, under which number and id, and in which request: the same every time.

A *sink queue* is what one partition sends to one queue. Its rows are cut into groups, whose rows
have numbers that hold a checksum of the group (docs/adr/0040-spark-sink.md): brokers drop what they
hold already, and rows that are others than the first time are no repeats. Everything here depends
on the rows and nothing else, so a repeated batch makes the same requests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from zlib import crc32

from epochmq.base.errors import UsageError
from epochmq.client.core.outgoing import Outgoing
from epochmq.client.core.send_policy import by_key
from epochmq.model.batch import entry
from epochmq.model.properties import NAME_END, PAIR_END
from epochmq.model.property_names import UNIQ_KEY
from epochmq.model.sink_mark import SINK_BATCH, SINK_ID, SINK_PART, SINK_SEQ
from epochmq.model.topic import MessageQueue
from epochmq.spark.encode import SinkRow

GROUP_ROWS = 4_096
"""So many numbers a broker remembers as one when it holds them all (store/seen.py)."""
GROUP_BYTES = 4 << 20
_INDEX_BITS = 12
_SUM_BITS = 32
_GROUP_MASK = 0x7FFF
"""With the other bits a number has 18 digits, which is what brokers read."""
_PREFIX_BYTES = 6
_NO_TIME = "00000000"
"""Where ids of other producers say the time: readers search from the month's start then."""


@dataclass(frozen=True, slots=True)
class PartitionId:
    """Whose rows these are: the same for every repetition of one partition of one batch."""

    sink_id: str
    batch: int
    partition: int


@dataclass(slots=True)
class Request:
    """What is sent in one piece."""

    outgoing: Outgoing
    is_batch: bool
    queue: MessageQueue | None
    """None when any queue will do."""
    first_row: int
    last_row: int
    size: int
    """Bytes of its bodies."""


@dataclass(frozen=True, slots=True)
class RequestBuilder:
    """How rows become requests. `marked` adds what a broker knows repeats by."""

    rows_max: int
    bytes_max: int
    marked: bool


class SinkQueue:
    """Rows of one partition on their way to one queue."""

    def __init__(self, queue: MessageQueue, identity: PartitionId, part: int, named: str) -> None:
        self.queue = queue
        self.part = part
        digest = blake2b(digest_size=_PREFIX_BYTES)
        for piece in (identity.sink_id, identity.batch, named, part, queue.topic):
            digest.update(f"{piece}\0".encode())
        self._prefix = digest.hexdigest().upper()
        self.rows: list[SinkRow] = []
        """The group that is being gathered."""
        self.size = 0
        self._keyed = False
        """Whether one of them must go to this queue."""
        self._count = 0
        self._groups = 0
        self._sum = 0
        self._own = PAIR_END.join(
            f"{name}{NAME_END}{value}"
            for name, value in (
                (SINK_ID, named),
                (SINK_BATCH, identity.batch),
                (SINK_PART, part),
                (SINK_SEQ, ""),
            )
        )

    def add(self, row: SinkRow) -> None:
        """One more row of the group."""
        self.rows.append(row)
        self.size += len(row.body)
        if row.key is not None or row.queue_id is not None:
            self._keyed = True

    def cut(self, how: RequestBuilder) -> Iterator[Request]:
        """The requests of the group, which has one row or more."""
        rows, self.rows = self.rows, []
        queue = self.queue if how.marked or self._keyed else None
        self.size, self._keyed = 0, False
        ids = list(map(self._next_id, rows))
        texts = self._marked(ids) if how.marked else [f"{UNIQ_KEY}{NAME_END}{n}" for n in ids]
        for start, stop in _pieces(rows, how):
            yield _request(rows[start:stop], texts[start:stop], ids[stop - 1], self.queue, queue)

    def _next_id(self, row: SinkRow) -> str:
        """SinkQueue, count and a sum over the sink queue up to here: other rows never get the same
        id."""
        self._count += 1
        self._sum = crc32(row.text.encode(), crc32(row.body, self._sum))
        return f"{self._prefix}{self._count & 0xFFFFFFFF:08X}{_NO_TIME}{self._sum & 0xFFFF:04X}"

    def _marked(self, ids: list[str]) -> list[str]:
        """The sink's properties of each row; the numbers are the sink queue's up to the group's
        end."""
        base = (self._groups & _GROUP_MASK) << _SUM_BITS | self._sum
        self._groups += 1
        number = base << _INDEX_BITS
        own = f"{PAIR_END}{self._own}"
        return [f"{UNIQ_KEY}{NAME_END}{each}{own}{number + at}" for at, each in enumerate(ids)]


def _pieces(rows: list[SinkRow], how: RequestBuilder) -> Iterator[tuple[int, int]]:
    """Where requests begin and end: a row alone is one of its own."""
    start = size = 0
    for at, row in enumerate(rows):
        size += len(row.body)
        full = at - start >= how.rows_max or size > how.bytes_max
        if at > start and (full or row.alone or rows[at - 1].alone):
            yield start, at
            start, size = at, len(row.body)
    yield start, len(rows)


def _request(
    rows: list[SinkRow],
    texts: list[str],
    last_id: str,
    home: MessageQueue,
    queue: MessageQueue | None,
) -> Request:
    texts = [
        f"{row.text}{PAIR_END}{text}" if row.text else text
        for row, text in zip(rows, texts, strict=True)
    ]
    if len(rows) == 1:
        outgoing = Outgoing(home.topic, rows[0].body, texts[0], rows[0].flag, 0, last_id)
    else:
        body = b"".join(
            entry(row.flag, row.body, text.encode()) for row, text in zip(rows, texts, strict=True)
        )
        # No properties of the batch's own: brokers would add them to every message in it.
        outgoing = Outgoing(home.topic, body, "", 0, 0, last_id)
    size = sum(len(row.body) for row in rows)
    return Request(outgoing, len(rows) > 1, queue, rows[0].number, rows[-1].number, size)


@dataclass(slots=True)
class QueueLayout:
    """The queues of a topic as a partition spreads its rows over them."""

    queues: tuple[MessageQueue, ...]
    mark: str = field(init=False)
    """Tells layouts apart: numbers of one are never compared with those of another."""
    _at: dict[MessageQueue, int] = field(init=False)

    def __post_init__(self) -> None:
        self._at = {queue: at for at, queue in enumerate(self.queues)}
        text = ";".join(map(str, self.queues))
        self.mark = f"{crc32(text.encode()):08x}"

    def index_of(self, row: SinkRow) -> int | None:
        """The queue of a row that has a key or says one; None when any will do.

        UsageError when there is no such queue.
        """
        if row.queue_id is not None:
            return self._named(row, row.queue_id)
        if row.key is not None:
            return self._at[by_key(self.queues, row.key)]
        return None

    def _named(self, row: SinkRow, queue_id: int) -> int:
        found = [at for at, queue in enumerate(self.queues) if queue.queue_id == queue_id]
        if not found:
            most = max(queue.queue_id for queue in self.queues)
            raise UsageError(
                f"row {row.number}: topic {row.topic} has no queue {queue_id}, only 0 to {most};"
                " drop column 'queueId' to have rows spread"
            )
        for at in found:
            if self.queues[at].broker_name == row.broker_name:
                return at
        return found[queue_id % len(found)]


class SinkQueues:
    """All sink queues of one partition to one topic."""

    def __init__(self, layout: QueueLayout, identity: PartitionId, how: RequestBuilder) -> None:
        self._layout = layout
        self._how = how
        count = len(layout.queues)
        named = f"{identity.sink_id}@{layout.mark}"
        self.sink_queues = [
            SinkQueue(queue, identity, identity.partition * count + at, named)
            for at, queue in enumerate(layout.queues)
        ]
        self._turn = (identity.partition + identity.batch) % count
        self.size = 0
        """Bytes of bodies that are being gathered."""

    def put(self, row: SinkRow) -> Iterator[tuple[SinkQueue, Request]]:
        """Take a row; the requests of groups that are whole now."""
        at = self._layout.index_of(row)
        sink_queue = self.sink_queues[self._turn if at is None else at]
        sink_queue.add(row)
        self.size += len(row.body)
        if len(sink_queue.rows) >= GROUP_ROWS or sink_queue.size >= GROUP_BYTES:
            yield from self._cut(sink_queue)

    def rest(self) -> Iterator[tuple[SinkQueue, Request]]:
        """What is left at the end of the partition, or when too much is gathered."""
        for sink_queue in self.sink_queues:
            if sink_queue.rows:
                yield from self._cut(sink_queue)

    def _cut(self, sink_queue: SinkQueue) -> Iterator[tuple[SinkQueue, Request]]:
        """The next rows that may go anywhere go to the queue after this one."""
        if sink_queue is self.sink_queues[self._turn]:
            self._turn = (self._turn + 1) % len(self.sink_queues)
        self.size -= sink_queue.size
        for request in sink_queue.cut(self._how):
            yield sink_queue, request


def spread(queues: Sequence[MessageQueue]) -> QueueLayout:
    """The layout of these queues; UsageError when there is none."""
    if not queues:
        raise UsageError("the topic has no queue that may be written; look at its permission")
    return QueueLayout(tuple(sorted(queues)))
