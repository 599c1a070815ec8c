"""Assigns each row of the sink a queue, a number, a message id and a request, deterministically.

A *sink queue* is the part of one partition that goes to one queue. Its rows are cut into groups.
Each row's number contains a checksum of its group (docs/adr/0040-spark-sink.md): brokers drop rows
that they already have, and rows that changed since the first try do not count as repeats.
All results depend on the rows only, so a repeated batch makes the same requests.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from operator import attrgetter

from epochmq.base.errors import UsageError
from epochmq.client.core.outgoing import Outgoing
from epochmq.client.core.send_policy import index_by_key
from epochmq.model.batch import join
from epochmq.model.crc import continue_crc32
from epochmq.model.properties import NAME_END, PAIR_END
from epochmq.model.property_names import UNIQ_KEY
from epochmq.model.sink_mark import SINK_BATCH, SINK_ID, SINK_PART, SINK_SEQ
from epochmq.model.topic import MessageQueue
from epochmq.spark.encode import SinkRow

GROUP_ROWS = 4_096
"""A broker remembers this many numbers as one entry when it has all of them (store/seen.py)."""
GROUP_BYTES = 4 << 20
_INDEX_BITS = 12
_SUM_BITS = 32
_GROUP_MASK = 0x7FFF
"""Together with the other bits a number has at most 18 digits, which brokers can read."""
_PREFIX_BYTES = 6
_NO_TIME = "00000000"
"""Message ids of other producers have the time here; with zeros readers search from the month's
start.
"""


_BODY, _TEXT, _FLAG = attrgetter("body"), attrgetter("text"), attrgetter("flag")
_KEY, _QUEUE_ID, _ALONE = attrgetter("key"), attrgetter("queue_id"), attrgetter("alone")


def body_bytes(rows: Sequence[SinkRow]) -> int:
    """Return how many bytes the bodies of rows have."""
    return sum(map(len, map(_BODY, rows)))


@dataclass(frozen=True, slots=True)
class PartitionId:
    """The identity of one partition of one batch: every repetition of the partition has the
    same.
    """

    sink_id: str
    batch: int
    partition: int


@dataclass(slots=True)
class Request:
    """One send request."""

    outgoing: Outgoing
    is_batch: bool
    queue: MessageQueue | None
    """None when any queue may store it."""
    first_row: int
    last_row: int
    size: int
    """Bytes of its bodies."""


@dataclass(frozen=True, slots=True)
class RequestBuilder:
    """Settings for requests; `marked` adds the properties by which a broker recognises repeats."""

    rows_max: int
    bytes_max: int
    marked: bool


class SinkQueue:
    """The rows of one partition that go to one queue."""

    def __init__(self, queue: MessageQueue, identity: PartitionId, part: int, named: str) -> None:
        self.queue = queue
        self.part = part
        digest = blake2b(digest_size=_PREFIX_BYTES)
        for piece in (identity.sink_id, identity.batch, named, part, queue.topic):
            digest.update(f"{piece}\0".encode())
        self._prefix = digest.hexdigest().upper()
        self.rows: list[SinkRow] = []
        """The group that is being filled."""
        self.size = 0
        self._keyed = False
        """Whether a row of the group must go to this queue."""
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

    def would_fill(self, count: int, size: int) -> bool:
        """Return whether `count` rows with bodies of `size` bytes would complete the group."""
        return len(self.rows) + count >= GROUP_ROWS or self.size + size >= GROUP_BYTES

    def extend(self, rows: Sequence[SinkRow], size: int, *, is_keyed: bool = False) -> bool:
        """Add rows with bodies of `size` bytes, of which only the last row may complete the group;
        return whether it does.

        With `is_keyed` one of the rows must go to this queue.
        """
        self.rows += rows
        self.size += size
        if is_keyed:
            self._keyed = True
        return len(self.rows) >= GROUP_ROWS or self.size >= GROUP_BYTES

    def add(self, row: SinkRow, size: int, *, is_keyed: bool) -> bool:
        """Add a row, with a body of `size` bytes, to the group; return whether it is complete.

        A row that `is_keyed` must go to this queue.
        """
        self.rows.append(row)
        self.size += size
        if is_keyed:
            self._keyed = True
        return len(self.rows) >= GROUP_ROWS or self.size >= GROUP_BYTES

    def cut(self, how: RequestBuilder) -> Iterator[Request]:
        """Yield the requests of the group, which must have at least one row, and begin a new
        group.
        """
        rows, self.rows = self.rows, []
        queue = self.queue if how.marked or self._keyed else None
        self.size, self._keyed = 0, False
        ids = self._ids(rows)
        texts = self._marked(ids) if how.marked else [f"{UNIQ_KEY}{NAME_END}{n}" for n in ids]
        sizes = [0, *accumulate(map(len, map(_BODY, rows)))]
        for start, stop in _pieces(rows, sizes, how):
            size = sizes[stop] - sizes[start]
            piece = rows[start:stop]
            yield _request(piece, texts[start:stop], size, ids[stop - 1], self.queue, queue)

    def _ids(self, rows: list[SinkRow]) -> list[str]:
        """Return the message ids: sink queue, row count, and a checksum of all its rows so far.

        Different rows therefore get different ids.
        """
        prefix, count, checksum = self._prefix, self._count, self._sum
        ids = []
        for row in rows:
            count += 1
            checksum = continue_crc32(row.body, checksum)
            if row.text:
                checksum = continue_crc32(row.text.encode(), checksum)
            ids.append(f"{prefix}{count & 0xFFFFFFFF:08X}{_NO_TIME}{checksum & 0xFFFF:04X}")
        self._count, self._sum = count, checksum
        return ids

    def _marked(self, ids: list[str]) -> list[str]:
        """Return the sink's properties of each row; the numbers contain the checksum up to the
        group's end.
        """
        base = (self._groups & _GROUP_MASK) << _SUM_BITS | self._sum
        self._groups += 1
        number = base << _INDEX_BITS
        own = f"{PAIR_END}{self._own}"
        return [f"{UNIQ_KEY}{NAME_END}{each}{own}{number + at}" for at, each in enumerate(ids)]


def _pieces(
    rows: list[SinkRow], sizes: list[int], how: RequestBuilder
) -> Iterator[tuple[int, int]]:
    """Yield where requests begin and end; a row with `alone` gets a request of its own.

    `sizes` has the bytes of the bodies before each row, and of all of them.
    """
    alone = [at for at, is_alone in enumerate(map(_ALONE, rows)) if is_alone]
    borders = sorted({len(rows), *alone, *(at + 1 for at in alone)})
    start = 0
    for border in borders:
        while start < border:
            fits = bisect_right(sizes, sizes[start] + how.bytes_max, start) - 1
            stop = min(border, start + how.rows_max, max(fits, start + 1))
            yield start, stop
            start = stop


def _request(
    rows: list[SinkRow],
    texts: list[str],
    size: int,
    last_id: str,
    home: MessageQueue,
    queue: MessageQueue | None,
) -> Request:
    own = list(map(_TEXT, rows))
    if any(own):
        texts = [
            f"{first}{PAIR_END}{text}" if first else text
            for first, text in zip(own, texts, strict=True)
        ]
    if len(rows) == 1:
        outgoing = Outgoing(home.topic, rows[0].body, texts[0], rows[0].flag, 0, last_id)
    else:
        encoded = map(str.encode, texts)
        body = join(zip(map(_FLAG, rows), map(_BODY, rows), encoded, strict=True))
        # The batch has no properties of its own: brokers would add them to every message in it.
        outgoing = Outgoing(home.topic, body, "", 0, 0, last_id)
    return Request(outgoing, len(rows) > 1, queue, rows[0].number, rows[-1].number, size)


@dataclass(slots=True)
class QueueLayout:
    """The queues of a topic in the order in which a partition assigns rows to them."""

    queues: tuple[MessageQueue, ...]
    mark: str = field(init=False)
    """Identifies the layout: brokers do not compare numbers of different layouts."""

    def __post_init__(self) -> None:
        text = ";".join(map(str, self.queues))
        self.mark = f"{continue_crc32(text.encode(), 0):08x}"

    def index_of(self, row: SinkRow) -> int:
        """Return the index of the queue for a row with a key or a queue id.

        Raises `UsageError` when there is no such queue.
        """
        if row.queue_id is not None:
            return self._named(row, row.queue_id)
        assert row.key is not None, "rows without a key are spread by the caller"
        return index_by_key(len(self.queues), row.key)

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


Ready = tuple[SinkQueue, Request]
"""A request to send, and the sink queue whose earlier requests it waits for."""


class SinkQueues:
    """All sink queues of one partition for one topic."""

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
        """Bytes of the bodies in groups that are not complete."""

    def put(self, rows: Sequence[SinkRow], room: int) -> tuple[int, list[Ready]]:
        """Add rows until the incomplete groups have more than `room` bytes.

        Returns how many rows were added, and the requests of groups that are complete now.
        """
        is_keyed = any(key is not None for key in map(_KEY, rows)) or any(
            queue_id is not None for queue_id in map(_QUEUE_ID, rows)
        )
        if not is_keyed:
            return self._put_slices(rows, room)
        if self._put_together(rows, room):
            return len(rows), []
        return self._put_each(rows, room)

    def _put_together(self, rows: Sequence[SinkRow], room: int) -> bool:
        """Add all rows if they fill no group and not the room; return whether they were added."""
        if self.size + body_bytes(rows) > room:
            return False
        shares: dict[int, list[SinkRow]] = {}
        keyed: set[int] = set()
        for row in rows:
            at = self._turn
            if row.key is not None or row.queue_id is not None:
                at = self._layout.index_of(row)
                keyed.add(at)
            share = shares.get(at)
            if share is None:
                share = shares[at] = []
            share.append(row)
        sizes = {at: body_bytes(share) for at, share in shares.items()}
        if any(self.sink_queues[at].would_fill(len(shares[at]), sizes[at]) for at in shares):
            return False
        for at, share in shares.items():
            self.size += sizes[at]
            self.sink_queues[at].extend(share, sizes[at], is_keyed=at in keyed)
        return True

    def _put_each(self, rows: Sequence[SinkRow], room: int) -> tuple[int, list[Ready]]:
        ready: list[Ready] = []
        for count, row in enumerate(rows, 1):
            is_keyed = row.key is not None or row.queue_id is not None
            at = self._layout.index_of(row) if is_keyed else self._turn
            size = len(row.body)
            self.size += size
            if self.sink_queues[at].add(row, size, is_keyed=is_keyed):
                ready += self._cut(self.sink_queues[at])
            if self.size > room:
                return count, ready
        return len(rows), ready

    def _put_slices(self, rows: Sequence[SinkRow], room: int) -> tuple[int, list[Ready]]:
        """Do what `_put_each` does with rows without a key or queue id, a slice at a time."""
        ready: list[Ready] = []
        sizes = [0, *accumulate(map(len, map(_BODY, rows)))]
        start = 0
        while start < len(rows):
            sink_queue = self.sink_queues[self._turn]
            free_bytes = GROUP_BYTES - sink_queue.size
            stop = min(
                len(rows),
                start + GROUP_ROWS - len(sink_queue.rows),
                bisect_left(sizes, sizes[start] + free_bytes, start + 1),
                bisect_right(sizes, sizes[start] + room - self.size, start + 1),
            )
            size = sizes[stop] - sizes[start]
            self.size += size
            if sink_queue.extend(rows[start:stop], size):
                ready += self._cut(sink_queue)
            start = stop
            if self.size > room:
                break
        return start, ready

    def rest(self) -> Iterator[Ready]:
        """Yield the requests of the incomplete groups: at the partition's end, or to free the
        buffer.
        """
        for sink_queue in self.sink_queues:
            if sink_queue.rows:
                yield from self._cut(sink_queue)

    def _cut(self, sink_queue: SinkQueue) -> Iterator[Ready]:
        """Cut the group into requests; rows without a key then go to the next sink queue."""
        if sink_queue is self.sink_queues[self._turn]:
            self._turn = (self._turn + 1) % len(self.sink_queues)
        self.size -= sink_queue.size
        for request in sink_queue.cut(self._how):
            yield sink_queue, request


def spread(queues: Sequence[MessageQueue]) -> QueueLayout:
    """Return the layout of these queues; raises `UsageError` when there is none."""
    if not queues:
        raise UsageError("the topic has no queue that may be written; look at its permission")
    return QueueLayout(tuple(sorted(queues)))
