"""Scans raw log bytes for sound records and damage (the log's integrity check).

A record is sound when its magic, all its lengths and its own offset agree, and, if requested, the
checksum of its body (the checks of `store.scan`, for whole runs at once). The offset in the record
are 64 bits that must match its place, so a record found after damage is not a coincidence. Only
bytes that someone deliberately put into a body can look like a record there, and only where the
record around them is damaged.

The checksum covers the body alone. A flipped bit in a time or a property is not detected.
"""

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from epochmq.model.crc import crc32
from epochmq.model.record import DAMAGED, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, TORN, check
from epochmq.spark.decode_heads import Ints, follow, gather, u32
from epochmq.store.draft import PRE_BLANK_SIZE, UNIT, UNIT_BYTES

Bytes = bytes | mmap.mmap
"""Bytes that can be searched and viewed without a copy."""

RUN_BYTES = 4 << 20
"""A run has about so many bytes at most, which limits a reader's work and memory."""

_LEAST = 91
"""The size in bytes of an empty record: head, empty body, topic and properties."""

_FRONT_BYTES = 40
_FRONT = np.dtype(
    [
        ("size", ">u4"),
        ("magic", ">u4"),
        ("crc", ">u4"),
        ("queueId", ">i4"),
        ("flag", ">i4"),
        ("queueOffset", ">i8"),
        ("offset", ">i8"),
        ("sysFlag", ">i4"),
    ]
)
_SIZE_MAGIC = Struct(">II").unpack_from
_OWN = Struct(">q").unpack_from
_COMMON = MAGIC_V1.to_bytes(4, "big")[:3]
"""The magics of all records begin with these bytes, at byte 4 of the record."""
_BLANK = MAGIC_BLANK.to_bytes(4, "big")


@dataclass(frozen=True, slots=True, eq=False)
class RecordRun:
    """Consecutive sound records in bytes `[start, end)` of the log."""

    start: int
    end: int
    offsets: Ints
    """The log offset of each record."""


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Bytes `[start, end)` of the log in which no sound record begins."""

    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"{self.end - self.start} bytes at log offset {self.start} ({self.why})"


def scan(
    data: Bytes, base: int, start: int, stop: int, *, file_end: int = -1, crc: bool = True
) -> Iterator[RecordRun | LogDamage]:
    """Yield the sound records and the damage in `[start, stop)` of a log file.

    `data` are the file's bytes, `base` is the log offset of its first byte; `start` and `stop` are
    record borders. `file_end` is the offset where the file should end, from the next file's name:
    the filler there is neither a record nor damage.
    """
    file_end = base + len(data) if file_end < 0 else file_end
    at = start
    while at < stop:
        run = _run(data, base, at, stop, crc)
        if run is not None:
            yield run
            at = run.end
        elif is_filler(data, at - base, file_end - at):
            return
        else:
            why = reason(data, base, at, stop)
            following = resync(data, base, at, stop, file_end)
            yield LogDamage(at, following, why)
            at = following


def is_filler(data: Bytes, at: int, left: int) -> bool:
    """Return whether a blank record at `at` fills the last `left` bytes of a log file."""
    return at + 8 <= len(data) and _SIZE_MAGIC(data, at) == (left, MAGIC_BLANK)


def _run(data: Bytes, base: int, at: int, stop: int, crc: bool) -> RecordRun | None:
    """Return the sound records from `at` on, up to about `RUN_BYTES`; None when there is none."""
    begin, limit = at - base, min(stop - base, len(data))
    if limit - begin < _LEAST:
        return None
    walk = follow(memoryview(data), begin, min(limit, begin + RUN_BYTES))
    starts, ends = walk.at, walk.at + walk.sizes
    believable = (walk.sizes >= _LEAST) & (ends <= limit)
    believable &= starts == np.concatenate(([begin], ends))[: len(starts)]  # no filler in between
    count = _first_false(believable)
    count = _sound(data, base, starts[:count], ends[:count], crc) if count else 0
    return RecordRun(at, base + int(ends[count - 1]), starts[:count] + base) if count else None


def _first_false(good: Any) -> int:
    return len(good) if good.all() else int(np.argmin(good))


def _sound(data: Bytes, base: int, at: Ints, ends: Ints, crc: bool) -> int:
    """Return how many of these records are sound before the first one that is not."""
    octets = np.frombuffer(data, dtype=np.uint8)
    fronts = fronts_of(data, at)
    bodies = _bodies(at, fronts)
    good = bodies + 3 <= ends
    body_ends = bodies + u32(octets, np.where(good, bodies - 4, at))
    wide = (fronts["magic"] == MAGIC_V2).astype(np.int64)
    good &= body_ends + 3 + wide <= ends
    safe = np.where(good, body_ends, at)
    topics = np.where(wide, _u16(octets, safe), octets[safe])
    topic_ends = safe + 1 + wide + topics
    good &= (topics > 0) & (topic_ends + 2 <= ends)
    good &= topic_ends + 2 + _u16(octets, np.where(good, topic_ends, at)) == ends
    good &= (fronts["offset"] == at + base) & (fronts["queueOffset"] >= 0)
    count = _first_false(good)
    return _checked(data, bodies[:count], body_ends[:count], fronts["crc"]) if crc else count


def fronts_of(data: Bytes, at: Ints) -> Any:
    """Return the first fields of the records at the places `at`, as an array with named fields."""
    return gather(np.frombuffer(data, dtype=np.uint8), at, _FRONT_BYTES).view(_FRONT)


def topics_of(data: Bytes, at: Ints, fronts: Any) -> list[bytes]:
    """Return the topics of sound records, as UTF-8."""
    octets = np.frombuffer(data, dtype=np.uint8)
    bodies = _bodies(at, fronts)
    ends = bodies + u32(octets, bodies - 4)
    wide = (fronts["magic"] == MAGIC_V2).astype(np.int64)
    sizes = np.where(wide, _u16(octets, ends), octets[ends])
    starts = ends + 1 + wide
    spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return [bytes(data[start:end]) for start, end in spans]


def _bodies(at: Ints, fronts: Any) -> Ints:
    """Return where the bodies of records begin; before them are their sizes."""
    flags = fronts["sysFlag"].astype(np.int64)
    bodies: Ints = at + 88 + 12 * ((flags >> 4 & 1) + (flags >> 5 & 1))
    return bodies


def _u16(octets: Any, at: Ints) -> Ints:
    pair: Ints = octets[at].astype(np.int64) << 8 | octets[at + 1]
    return pair


def _checked(data: Bytes, bodies: Ints, ends: Ints, expected: Any) -> int:
    """Return how many bodies match their checksum before the first one that does not."""
    view = memoryview(data)
    rows = zip(bodies.tolist(), ends.tolist(), expected.tolist(), strict=False)
    for index, (start, end, wanted) in enumerate(rows):
        if crc32(view[start:end]) != wanted:
            return index
    return len(bodies)


# Resynchronisation after damage ------------------------------------------------------------------


def is_record(data: Bytes, base: int, offset: int, stop: int) -> bool:
    """Return whether a sound record, with a correct checksum, begins at `offset` and ends by
    `stop`.
    """
    at = offset - base
    if not 0 <= at <= len(data) - _LEAST:
        return False
    size = check(memoryview(data), at, min(stop - base, len(data)), crc=False)
    return size > 0 and _run(data, base, offset, offset + size, True) is not None


def resync(data: Bytes, base: int, at: int, stop: int, file_end: int) -> int:
    """Return the offset of the first sound record or filler after the damage at `at`, else `stop`.

    The size in the damaged record is tried first: it is correct when only the body is damaged.
    """
    size, magic = _SIZE_MAGIC(data, at - base) if at + 8 - base <= len(data) else (0, 0)
    following = at + int(size)
    if magic in (MAGIC_V1, MAGIC_V2) and size >= _LEAST and following <= stop:
        if following == stop or is_record(data, base, following, stop):
            return following
        if is_filler(data, following - base, file_end - following):
            return following
    return _search(data, base, at, stop, file_end)


def _search(data: Bytes, base: int, at: int, stop: int, file_end: int) -> int:
    limit = min(stop - base, len(data))
    found = data.find(_COMMON, at - base + 5, limit)
    while found >= 0:
        if is_record(data, base, base + found - 4, stop):
            return base + found - 4
        found = data.find(_COMMON, found + 1, limit)
    # A filler is always last in a file, so it is searched for after all records.
    found = data.find(_BLANK, at - base + 5, limit)
    while found >= 0:
        if is_filler(data, found - 4, file_end - base - found + 4):
            return base + found - 4
        found = data.find(_BLANK, found + 1, limit)
    return stop


def reason(data: Bytes, base: int, offset: int, stop: int) -> str:
    """Return the reason why no sound record begins at `offset`."""
    at, limit = offset - base, min(stop - base, len(data))
    if limit - at < 8:
        return "the file ends here" if limit <= at else "no room for a record"
    _, magic = _SIZE_MAGIC(data, at)
    if magic == 0:
        return "nothing is written here"
    if magic == MAGIC_BLANK:
        return "a filler of the wrong size"
    size = check(memoryview(data), at, limit, crc=False)
    if size == TORN:
        return "torn record"
    if size == DAMAGED:
        return "lengths do not agree"
    if size <= 0:
        return "unknown magic"
    own = _OWN(data, at + 28)[0]
    if own != offset:
        return f"it says that it lies at {own}"
    if check(memoryview(data), at, limit, crc=True) <= 0:
        return "body checksum is wrong"
    return "no topic, or a negative queue offset"


# Log borders ---------------------------------------------------------------------------------
# Finds record borders without reading the log, from the consume queues.  A reader that begins
# inside a log file must begin at a record. Bytes that look like a record may be part of a body. A
# place therefore counts only when a unit of a consume queue names it and a sound record is there.
# Missing, stale or damaged queues give fewer places, but never wrong ones.


QUEUE_FOLDER = "consumequeue"
QUEUES_MAX = 64
"""The most queues that are read: those with the newest units."""

_NOWHERE = 1 << 63


class QueueFile:
    """The units of one consume queue file, which are in the log's order; opened on first use."""

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def _units(self) -> mmap.mmap | bytes:
        with suppress(OSError, ValueError), open(self._path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return b""

    def offset(self, index: int) -> int:
        """Return the log offset of the record of unit `index`; `_NOWHERE` where no unit is
        written.
        """
        at, size, _ = UNIT.unpack_from(self._units, index * UNIT_BYTES)
        if size == 0:
            return _NOWHERE
        return -1 if size == PRE_BLANK_SIZE else int(at)

    @property
    def first(self) -> int:
        """The log offset of the first unit's record."""
        return self.offset(0) if len(self._units) >= UNIT_BYTES else _NOWHERE

    def around(self, offset: int) -> tuple[int | None, int | None]:
        """Return the last known record before `offset`, and the first one at or after it."""
        count = len(self._units) // UNIT_BYTES
        index = bisect_left(range(count), offset, key=self.offset)
        before = self.offset(index - 1) if index else -1
        after = self.offset(index) if index < count else _NOWHERE
        return (before if before >= 0 else None), (after if after < _NOWHERE else None)


class Borders:
    """Record borders from the consume queues of one store directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def _queues(self) -> list[list[QueueFile]]:
        folders = []
        for topic in _folders(self._root / QUEUE_FOLDER):
            folders += list(_folders(topic))
        newest = sorted(folders, key=_age)[:QUEUES_MAX]
        return [[QueueFile(path) for path in _files(folder)] for folder in newest]

    def _around(self, offset: int) -> Iterator[tuple[int | None, int | None]]:
        for files in self._queues:
            index = bisect_right(files, offset, key=lambda file: file.first) - 1
            yield files[max(index, 0)].around(offset) if files else (None, None)

    def last_before(self, data: Bytes, base: int, limit: int) -> int | None:
        """Return the last known record in the file `data` that begins before `limit`."""
        known = {before for before, _ in self._around(limit) if before is not None}
        for offset in sorted(known, reverse=True):
            if offset >= base and is_record(data, base, offset, base + len(data)):
                return offset
        return None

    def cuts(self, data: Bytes, base: int, end: int, step: int) -> list[int]:
        """Return record offsets that split `[base, end)` into ranges of about `step` bytes or
        more.
        """
        found: list[int] = []
        target = base + step
        while target + step // 2 < end:
            known = {after for _, after in self._around(target) if after is not None}
            good = (at for at in sorted(known) if at < end and is_record(data, base, at, end))
            border = next(good, None)
            if border is not None:
                found.append(border)
            target = max(border or 0, target) + step
        return found


def _folders(path: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(each for each in path.iterdir() if each.is_dir())


def _files(folder: Path) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if len(name) == 20 and name.isdecimal())
    return [str(folder / name) for name in names]


def _age(folder: Path) -> tuple[float, str]:
    try:
        newest = max((each.stat().st_mtime for each in folder.iterdir()), default=0.0)
    except OSError:
        newest = 0.0
    return -newest, str(folder)
