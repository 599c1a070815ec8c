"""Truncation of the log at recovery and in replication: how bytes behind its end are removed.

Later files are deleted; the other bytes behind the end are overwritten with zeros and synced.
Without the zeros, old records behind the end could be taken for new ones after the next crash
(rocketmq#10666). Recovery keeps all cut bytes in `cut/` for an operator, and the report names them.
If the disk has no space for the copy, nothing is cut; only the torn tail of a crash may be cut
without a copy.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from epochmq.base.errors import DiskFull, EnvironmentFault
from epochmq.base.ports import Disk
from epochmq.model.record import BLANK
from epochmq.store.commit_log import CommitLog
from epochmq.store.segment import Segment

CUT_FOLDER = "cut"
_BLOCK = 1 << 20


@dataclass
class CutTail:
    """What was cut behind the log's end, and which files keep it."""

    offset: int = 0
    """Log offset where the cut bytes begin."""
    size: int = 0
    reason: str = ""
    count: int = 0
    """Number of complete records in the cut bytes (truncation only)."""
    first_id: str = ""
    last_id: str = ""
    epochs: tuple[int, ...] = ()
    """Epochs whose masters wrote the cut bytes."""
    below_confirmed: int = 0
    """Cut bytes that had been confirmed: an unclean election lost them."""
    kept: list[str] = field(default_factory=list)
    """Files that keep the cut bytes."""

    def __str__(self) -> str:
        messages = f"{self.count} messages ({self.first_id} to {self.last_id}), "
        return (
            f"{messages if self.count else ''}{self.size} bytes at log offset {self.offset}"
            f"{f', {self.below_confirmed} of them confirmed,' if self.below_confirmed else ''}"
            f"{f' of epochs {self.epochs}' if self.epochs else ''} ({self.reason});"
            f" kept in {', '.join(self.kept) or 'no file'}"
        )


def end_log(disk: Disk, log: CommitLog, end: int, *, must_keep: bool = False) -> CutTail:
    """Cut the log to `end` durably, in recovery: the bytes from `end` on are not a valid record.

    With `must_keep`, raises `DiskFull` if there is no space to keep the cut bytes. Returns what was
    cut.
    """
    cut = CutTail()
    for segment in log.segments:
        if segment.end > end:
            try:
                _save(disk, segment, max(end - segment.start, 0), cut)
            except DiskFull:
                if must_keep:
                    raise
    log.cut_files(end)
    if log.segments and log.segments[-1].end > end:
        last = log.segments[-1]
        for at, block in _data(last, end - last.start):
            last.file.write(at, bytes(len(block)))
        last.file.sync()
    log.sync_names()  # a crash may have prevented the sync when the last file was made
    return cut


def write_again(log: CommitLog, start: int, end: int) -> None:
    """Rewrite `[start, end)`, which may not be synced, and make sure that no record begins at
    `end`.

    After a failed sync the page cache may call pages clean that the device never received. A later
    sync skips these pages, and what is appended behind them is lost with them (fsyncgate).
    """
    for segment in log.between(start, end):
        stop = min(end, segment.end) - segment.start
        for at in range(max(start - segment.start, 0), stop, _BLOCK):
            segment.file.write(at, segment.file.read(at, min(_BLOCK, stop - at)))
    if (last := log.find(end)) is not None and last.end - end >= BLANK.size:
        last.write(end, bytes(BLANK.size))


class LogCut:
    """A blocking step that durably cuts the log to `end`, which is the start of a record.

    The first write removes the record head at `end`. After its sync, every recovery that reads this
    file stops there. Only then are the other bytes removed, in any order: zeros inside a record
    that still counts could be taken for its properties.

    The step changes files only; `CommitLog.forget` follows on the event loop.
    """

    def __init__(self, log: CommitLog, end: int) -> None:
        segment = log.find(end)
        assert segment is not None
        self.begun = False
        """Whether the files may no longer hold the whole log."""
        self._log = log
        self._segment = segment
        self._later = log.behind(end)
        self._at = end - segment.start
        self._stop = min(log.end, segment.end) - segment.start

    def __call__(self) -> None:
        file, at, stop = self._segment.file, self._at, self._stop
        head = min(BLANK.size, stop - at)
        file.write(at, bytes(head))
        self.begun = True
        file.sync()
        self._log.delete(self._later)
        if at + head < stop:
            for start in range(at + head, stop, _BLOCK):
                file.write(start, bytes(min(_BLOCK, stop - start)))
            file.sync()


def keep(disk: Disk, segment: Segment, at: int, size: int, name: str) -> str:
    """Copy `size` bytes of `segment` from `at` to `cut/NAME.log`, durably; return the path.

    If the path holds other bytes, a number is added to the name. Raises `DiskFull` without space.
    """
    disk.make_dir(CUT_FOLDER)
    for number in count():
        path = f"{CUT_FOLDER}/{name}.{number}.log" if number else f"{CUT_FOLDER}/{name}.log"
        if not disk.exists(path):
            _copy(disk, segment, at, size, path)
            return path
        if _is_copy(disk, segment, at, size, path):
            return path
    raise AssertionError


def kept_bytes(disk: Disk) -> int:
    """Return the size in bytes of all files that `keep` has written and nobody has removed.

    Files that cannot be looked at, because they were removed meanwhile, do not count.
    """
    total = 0
    with suppress(EnvironmentFault):
        for name in disk.list(CUT_FOLDER):
            with suppress(EnvironmentFault):
                total += disk.size(f"{CUT_FOLDER}/{name}")
    return total


def _copy(disk: Disk, segment: Segment, at: int, size: int, path: str) -> None:
    temp = path + ".tmp"
    file = disk.open(temp, create_size=size)
    try:
        for step in range(0, size, _BLOCK):
            file.write(step, segment.file.read(at + step, min(_BLOCK, size - step)))
        file.sync()
    except EnvironmentFault:
        file.close()
        disk.remove(temp)
        raise
    file.close()
    disk.rename(temp, path)
    disk.sync_dir(CUT_FOLDER)
    disk.sync_dir("")


def _is_copy(disk: Disk, segment: Segment, at: int, size: int, path: str) -> bool:
    if disk.size(path) != size:
        return False
    file = disk.open(path)
    try:
        return all(
            file.read(step, _BLOCK) == segment.file.read(at + step, min(_BLOCK, size - step))
            for step in range(0, size, _BLOCK)
        )
    finally:
        file.close()


def _data(segment: Segment, at: int) -> "list[tuple[int, bytes]]":
    """Return the blocks from `at` on that are not all zero."""
    found: list[tuple[int, bytes]] = []
    for start, stop in segment.data:
        for step in range(max(start, at), stop, _BLOCK):
            block = segment.file.read(step, min(_BLOCK, stop - step))
            if block.count(0) != len(block):
                found.append((step, block))
    return found


def _save(disk: Disk, segment: Segment, at: int, cut: CutTail) -> None:
    """Keep the bytes of `segment` from `at` up to the last byte that is not zero."""
    blocks = _data(segment, at)
    if not blocks:
        return
    last_at, last = blocks[-1]
    size = last_at + len(last.rstrip(b"\0")) - at
    if not cut.size:
        cut.offset = segment.start + at
    cut.size += size
    cut.kept.append(keep(disk, segment, at, size, f"0-{segment.start + at}"))
