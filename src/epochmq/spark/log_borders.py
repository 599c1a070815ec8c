"""Where records begin, without reading the log: the consume queues know.

A reader that begins inside a log file must begin at a record. Bytes that look like one may be
somebody's body, so a place is believed only when a queue's unit names it and a sound record lies
there. Queues may be missing, stale or damaged: then fewer places are known, never wrong ones.
"""

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from epochmq.spark.log_scan import Bytes, is_record
from epochmq.store.store_layout import PRE_BLANK_SIZE, UNIT, UNIT_BYTES

QUEUE_FOLDER = "consumequeue"
QUEUES_MAX = 64
"""Queues that are looked into, those with the newest units first."""

_NOWHERE = 1 << 63


class QueueFile:
    """Units of one file of a consume queue, in the order of the log; opened while it is asked."""

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def _units(self) -> mmap.mmap | bytes:
        with suppress(OSError, ValueError), open(self._path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return b""

    def offset(self, index: int) -> int:
        """Log offset of the record of unit `index`; later than any where no unit is written."""
        at, size, _ = UNIT.unpack_from(self._units, index * UNIT_BYTES)
        if size == 0:
            return _NOWHERE
        return -1 if size == PRE_BLANK_SIZE else int(at)

    @property
    def first(self) -> int:
        """Log offset of the first unit's record."""
        return self.offset(0) if len(self._units) >= UNIT_BYTES else _NOWHERE

    def around(self, offset: int) -> tuple[int | None, int | None]:
        """The last known record before `offset`, the first one not before it."""
        count = len(self._units) // UNIT_BYTES
        index = bisect_left(range(count), offset, key=self.offset)
        before = self.offset(index - 1) if index else -1
        after = self.offset(index) if index < count else _NOWHERE
        return (before if before >= 0 else None), (after if after < _NOWHERE else None)


class Borders:
    """The consume queues of one store directory."""

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
        """The last known record of the file `data` that begins before `limit` and ends there."""
        known = {before for before, _ in self._around(limit) if before is not None}
        for offset in sorted(known, reverse=True):
            if offset >= base and is_record(data, base, offset, base + len(data)):
                return offset
        return None

    def cuts(self, data: Bytes, base: int, end: int, step: int) -> list[int]:
        """Records that cut `[base, end)` into ranges of at least `step` bytes, about."""
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
