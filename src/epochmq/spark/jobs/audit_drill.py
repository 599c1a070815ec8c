"""Finds the records in blocks that differ, and the replicas that are probably wrong.

A record's start is found without an index: a record contains its own log offset, so a magic number
in a record whose offset is its own place is a record's start.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct

from epochmq.base.limits import MESSAGE_BYTES_MAX, RECORD_EXTRA_BYTES_MAX
from epochmq.model import record
from epochmq.model.log_blocks import blocks_of
from epochmq.spark.jobs.audit_core import Names, Split

RECORDS_MAX = 20
"""The most records that are reported for each run of differing blocks; the rest is not read."""

_LOOK_BACK = (64 << 10, 1 << 20, MESSAGE_BYTES_MAX + RECORD_EXTRA_BYTES_MAX)
_CELL = 64
_MAGICS = (record.MAGIC_V1, record.MAGIC_V2)
_MAGIC_HEAD = record.MAGIC_V1.to_bytes(4, "big")[:3]
_U32 = Struct(">I").unpack_from
_I64 = Struct(">q").unpack_from

Read = Callable[[str, int, int], bytes]
"""(replica, low, high) -> the log's bytes there; fewer at the replica's end, and before bytes that
it knows as damaged.
"""


@dataclass(frozen=True, slots=True)
class ReplicaByte:
    """What a replica has at a byte; `kind` is record, damaged (no whole record), filler or gap.

    `body_fits` is whether the body's checksum is right. Names are set for records only.
    """

    kind: str
    offset: int
    size: int = 0
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1
    msg_id: str = ""
    store_wall_ms: int = 0
    body_fits: bool | None = None

    @property
    def is_sound(self) -> bool:
        return self.kind == "record" and self.body_fits is not False


@dataclass(frozen=True, slots=True)
class Difference:
    """Bytes of `[low, high)` that differ, from the first one (`first`) to the last one (`last`).

    Both are -1 if the bytes were equal, or could not be read, when they were read again.
    `records` has the first records, each as read from the first replica of every group. `suspects`
    are the replicas that are probably wrong: their record is damaged, or they are a minority.
    """

    low: int
    high: int
    first: int
    last: int
    groups: tuple[Names, ...]
    suspects: Names
    records: list[dict[str, ReplicaByte]] = field(default_factory=list)
    more: bool = False
    """Whether more records differ after the last one in `records`."""


def differing(a: bytes, b: bytes) -> Iterator[tuple[int, int]]:
    """Yield the maximal ranges in which two byte strings of equal length differ, in order."""
    begin = end = -1
    for low, high in _cells(a, b, 0, len(a)):
        for at in range(low, high):
            if a[at] == b[at]:
                continue
            if at != end:
                if end > begin >= 0:
                    yield begin, end
                begin = at
            end = at + 1
    if end > begin >= 0:
        yield begin, end


def _cells(a: bytes, b: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    if a[low:high] == b[low:high]:
        return
    if high - low <= _CELL:
        yield low, high
        return
    middle = (low + high) // 2
    yield from _cells(a, b, low, middle)
    yield from _cells(a, b, middle, high)


def drill(
    split: Split, block_bytes: int, start: int, read: Read, records_max: int = RECORDS_MAX
) -> Difference:
    """Read the blocks of `split` until `records_max` records are known.

    `start` is the log's first offset, `block_bytes` the block size.
    """
    names = [group[0] for group in split.groups]
    first = last = -1
    records: list[dict[str, ReplicaByte]] = []
    covered = split.low
    blocks = list(blocks_of(split.low, split.high, block_bytes))
    more = False
    for number, (low, size) in enumerate(blocks):
        if len(records) >= records_max and number < len(blocks) - 1:
            more = True
            continue
        for begin, end in _differing_of(names, low, low + size, read):
            first, last = begin if first < 0 else first, max(last, end - 1)
            # One record may differ in several places.
            at = max(begin, covered)
            while at < end:
                if len(records) >= records_max:
                    more = True
                    break
                places = {name: place_at(name, at, start, read) for name in names}
                records.append(places)
                covered = at = _behind(places, at)
    return Difference(
        split.low,
        split.high,
        first,
        last,
        split.groups,
        suspects(split.groups, records),
        records,
        more,
    )


def _differing_of(names: Sequence[str], low: int, high: int, read: Read) -> list[tuple[int, int]]:
    """Return the ranges of log offsets in which not all of `names` agree, in order; they may
    touch.
    """
    texts = [read(name, low, high) for name in names]
    size = min(map(len, texts))
    found = {
        (low + begin, low + end)
        for other in texts[1:]
        for begin, end in differing(texts[0][:size], other[:size])
    }
    return sorted(found)


def _behind(places: dict[str, ReplicaByte], at: int) -> int:
    """Return where the record at `at` ends according to replicas with a sound one; else `at` +
    1.
    """
    ends = [p.offset + p.size for p in places.values() if p.is_sound or p.kind == "filler"]
    if not ends:
        ends = [p.offset + p.size for p in places.values() if p.kind == "record"]
    return max(at + 1, min(ends, default=at + 1))


def place_at(name: str, at: int, start: int, read: Read) -> ReplicaByte:
    """Return what replica `name` has at log offset `at`; its log begins at `start`."""
    for back in _LOOK_BACK:
        low = max(start, at - back)
        text = read(name, low, at + 4096)
        found = _last_start(text, low, at)
        if found is not None:
            return _at_or_behind(name, text, low, found, at, read)
        if low == start:
            break
    return ReplicaByte("gap", at)


def _last_start(text: bytes, base: int, at: int) -> int | None:
    """Return the start of the last record at or before `at`; None when `text` has none."""
    end = at - base + 7
    while True:
        found = text.rfind(_MAGIC_HEAD, 0, end)
        if found < 0:
            return None
        pos = found - record.MAGIC_AT
        if (
            0 <= pos <= at - base
            and pos + record.OFFSET_AT + 8 <= len(text)
            and _U32(text, found)[0] in _MAGICS
            and _I64(text, pos + record.OFFSET_AT)[0] == base + pos
        ):
            return base + pos
        end = found + len(_MAGIC_HEAD) - 1


def _at_or_behind(
    name: str, text: bytes, base: int, start: int, at: int, read: Read
) -> ReplicaByte:
    size = _U32(text, start - base)[0]
    behind = start + size
    if size == 0 or at < behind:
        return _place(name, start, read)
    # No record begins between there and `at`: a filler, or a record whose head is damaged.
    pos = behind - base
    if pos + 8 > len(text):
        return ReplicaByte("damaged", behind)
    if _U32(text, pos + record.MAGIC_AT)[0] == record.MAGIC_BLANK:
        return ReplicaByte("filler", behind, _U32(text, pos)[0])
    return ReplicaByte("damaged", behind)


def _place(name: str, start: int, read: Read) -> ReplicaByte:
    most = MESSAGE_BYTES_MAX + RECORD_EXTRA_BYTES_MAX
    text = read(name, start, start + 4096)
    if len(text) < 4:
        return ReplicaByte("damaged", start)
    size = min(_U32(text, 0)[0], most)
    if size > len(text):
        text = read(name, start, start + size)
    if record.check(text, 0, min(size, len(text)), crc=False) <= 0:
        return ReplicaByte("damaged", start)
    message = record.decode(text)
    fits = record.check(text, 0, size, crc=True) > 0
    return ReplicaByte(
        "record",
        start,
        size,
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.msg_id,
        message.store_wall_ms,
        fits,
    )


def suspects(groups: tuple[Names, ...], records: Sequence[dict[str, ReplicaByte]]) -> Names:
    """Return the replicas that are probably wrong; empty when there is no indication."""
    unsound = {name for places in records for name, p in places.items() if not p.is_sound}
    damaged = [group for group in groups if group[0] in unsound]
    if damaged and len(damaged) < len(groups):
        return tuple(name for group in damaged for name in group)
    if len(groups[0]) > len(groups[1]):
        return tuple(name for group in groups[1:] for name in group)
    return ()
