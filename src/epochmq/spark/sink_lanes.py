"""Which queue a row goes to, with which number and id, and in which request: the same every time.

A *lane* is what one partition sends to one queue. Its rows are numbered from 1 and its requests go
out one after another, because brokers drop what is not above the last number that they hold
(docs/adr/0040-spark-sink.md). Everything here depends on the rows and nothing else, so a repeated
batch makes the same requests.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from zlib import crc32

from epochmq.base.errors import UsageError
from epochmq.client.core.outgoing import Outgoing
from epochmq.client.core.queue_selector import by_key
from epochmq.model.batch import entry
from epochmq.model.properties import NAME_END, PAIR_END
from epochmq.model.property_names import UNIQ_KEY
from epochmq.model.queue import MessageQueue
from epochmq.spark.encode import Row
from epochmq.spark.encode_properties import SINK_BATCH, SINK_ID, SINK_PART, SINK_SEQ

_PREFIX_BYTES = 6
_PREFIX_DIGITS = 2 * _PREFIX_BYTES
_NO_TIME = "00000000"
"""Where ids of other producers say the time: readers search from the month's start then."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose rows these are: the same for every repetition of one partition of one batch."""

    sink_id: str
    batch: int
    partition: int


@dataclass(slots=True)
class Request:
    """What is sent in one piece; `first_seq` to `first_seq + len(ids) - 1` of its lane."""

    outgoing: Outgoing
    is_batch: bool
    queue: MessageQueue | None
    """None when any queue will do."""
    first_seq: int
    ids: list[str]
    first_row: int
    last_row: int
    size: int
    """Bytes of its bodies."""


class Lane:
    """Rows of one partition on their way to one queue."""

    def __init__(self, queue: MessageQueue, identity: Identity, part: int, named: str) -> None:
        self.queue = queue
        self.part = part
        digest = blake2b(digest_size=_PREFIX_BYTES)
        for piece in (identity.sink_id, identity.batch, named, part, queue.topic):
            digest.update(f"{piece}\0".encode())
        self.prefix = digest.hexdigest().upper()
        """How all ids of the lane begin."""
        self.rows: list[Row] = []
        self.size = 0
        self.keyed = False
        """Whether one of the waiting rows must go to this queue."""
        self._seq = 0
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

    @property
    def sent(self) -> int:
        """The last number given."""
        return self._seq

    def add(self, row: Row) -> None:
        """One more row waits."""
        self.rows.append(row)
        self.size += len(row.body)
        if row.key is not None or row.queue_id is not None:
            self.keyed = True

    def cut(self, *, free: bool, marked: bool) -> Request:
        """The request with all waiting rows, of which there is one or more.

        `marked` adds what a broker knows repeats by; `free` lets rows go to any queue that need not
        go to this one.
        """
        rows, self.rows = self.rows, []
        first = self._seq + 1
        ids, texts = [], []
        for row in rows:
            uniq_id = self._next_id(row)
            text = f"{UNIQ_KEY}{NAME_END}{uniq_id}"
            if row.text:
                text = f"{row.text}{PAIR_END}{text}"
            ids.append(uniq_id)
            texts.append(f"{text}{PAIR_END}{self._own}{self._seq}" if marked else text)
        queue = None if free and not self.keyed else self.queue
        request = Request(
            _outgoing(self.queue.topic, rows, texts, ids),
            len(rows) > 1,
            queue,
            first,
            ids,
            rows[0].number,
            rows[-1].number,
            self.size,
        )
        self.size, self.keyed = 0, False
        return request

    def _next_id(self, row: Row) -> str:
        """Lane, number and a sum over the lane up to here: other rows never get the same id."""
        self._seq += 1
        self._sum = crc32(row.text.encode(), crc32(row.body, self._sum))
        return f"{self.prefix}{self._seq:08X}{_NO_TIME}{self._sum & 0xFFFF:04X}"


def _outgoing(topic: str, rows: list[Row], texts: list[str], ids: list[str]) -> Outgoing:
    if len(rows) == 1:
        return Outgoing(topic, rows[0].body, texts[0], rows[0].flag, 0, ids[0])
    body = b"".join(
        entry(row.flag, row.body, text.encode()) for row, text in zip(rows, texts, strict=True)
    )
    # No properties of the batch's own: brokers would add them to every message in it.
    return Outgoing(topic, body, "", 0, 0, ids[-1])


_sink_id = re.compile(rf"[0-9A-F]{{{_PREFIX_DIGITS + 8}}}{_NO_TIME}[0-9A-F]{{4}}").fullmatch


def is_sink_id(uniq_id: str) -> bool:
    """Whether it was made here: clients' ids say a time."""
    return _sink_id(uniq_id) is not None


def seq_of(uniq_id: str, prefix: str) -> int | None:
    """The number inside an id of the lane `prefix`; None for any other id."""
    if not is_sink_id(uniq_id) or not uniq_id.startswith(prefix):
        return None
    return int(uniq_id[_PREFIX_DIGITS : _PREFIX_DIGITS + 8], 16)


@dataclass(slots=True)
class Layout:
    """The queues of a topic as a partition spreads its rows over them."""

    queues: tuple[MessageQueue, ...]
    mark: str = field(init=False)
    """Tells layouts apart: numbers of one are never compared with those of another."""
    _at: dict[MessageQueue, int] = field(init=False)

    def __post_init__(self) -> None:
        self._at = {queue: at for at, queue in enumerate(self.queues)}
        text = ";".join(map(str, self.queues))
        self.mark = f"{crc32(text.encode()):08x}"

    def index_of(self, row: Row) -> int | None:
        """The queue of a row that has a key or says one; None when any will do.

        UsageError when there is no such queue.
        """
        if row.queue_id is not None:
            return self._named(row, row.queue_id)
        if row.key is not None:
            return self._at[by_key(self.queues, row.key)]
        return None

    def _named(self, row: Row, queue_id: int) -> int:
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


class TopicLanes:
    """All lanes of one partition to one topic."""

    def __init__(
        self, layout: Layout, identity: Identity, *, rows_max: int, bytes_max: int, marked: bool
    ) -> None:
        self._layout = layout
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._marked = marked
        count = len(layout.queues)
        self.lanes = [
            Lane(
                queue,
                identity,
                identity.partition * count + at,
                f"{identity.sink_id}@{layout.mark}",
            )
            for at, queue in enumerate(layout.queues)
        ]
        self._turn = identity.partition % count
        self.size = 0
        """Bytes of bodies that wait."""

    def put(self, row: Row) -> Iterator[tuple[Lane, Request]]:
        """Take a row; the requests that are whole now."""
        at = self._layout.index_of(row)
        lane = self.lanes[self._turn if at is None else at]
        if lane.rows and (row.alone or lane.size + len(row.body) > self._bytes_max):
            yield self._cut(lane)
            if at is None and not row.alone:
                lane = self.lanes[self._turn]
                if lane.rows and lane.size + len(row.body) > self._bytes_max:
                    yield self._cut(lane)
        lane.add(row)
        self.size += len(row.body)
        if row.alone or len(lane.rows) >= self._rows_max:
            yield self._cut(lane)

    def rest(self) -> Iterator[tuple[Lane, Request]]:
        """What is left at the end of the partition, or when too much waits."""
        for lane in self.lanes:
            if lane.rows:
                yield self._cut(lane)

    def _cut(self, lane: Lane) -> tuple[Lane, Request]:
        """The next rows that may go anywhere go to the queue after this one."""
        if lane is self.lanes[self._turn]:
            self._turn = (self._turn + 1) % len(self.lanes)
        self.size -= lane.size
        return lane, lane.cut(free=not self._marked, marked=self._marked)


def spread(queues: Sequence[MessageQueue]) -> Layout:
    """The layout of these queues; UsageError when there is none."""
    if not queues:
        raise UsageError("the topic has no queue that may be written; look at its permission")
    return Layout(tuple(sorted(queues)))
