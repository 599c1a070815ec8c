"""A store directory as it lies on a disk: log files, what truncation kept, epochs, confirmation.

Everything is opened for reading only: nothing is written, made, locked or removed, so a directory
may belong to a broker that runs, be a copy, or be mounted read only. A file that retention deletes
meanwhile stays readable as long as it is open here.

A store is recognised by its `commitlog` directory; a directory that holds log files itself (names
of 20 digits) will do as well, without epochs and without what truncation kept.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from epochmq.base.errors import EnvironmentFault, NotFound, UsageError
from epochmq.runtime.disk import RealDisk
from epochmq.spark.log_scan import Borders, Bytes, LogDamage, RecordRun, is_filler, scan
from epochmq.store.checkpoint import stored_confirm
from epochmq.store.epochs import EpochFile, with_ends
from epochmq.store.log_end import CUT_FOLDER
from epochmq.store.options import StoreOptions
from epochmq.store.recovery import ABORT

LOG_FOLDER = StoreOptions().commit_log_dir

_BLOCK = 1 << 20

EpochSpan = tuple[int, int, int]
"""(epoch, start, end)"""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file with bytes of the log."""

    path: str
    start: int
    """Log offset of its first byte, by its name."""
    size: int
    """Bytes that it has."""
    room: int
    """Bytes that it should have: up to the next file's start."""
    cut: bool = False
    """Kept by truncation: these bytes are not in the log any more."""
    epoch: int | None = None
    """Of a cut file: whose bytes truncation called them; None where nobody said."""

    @property
    def end(self) -> int:
        """Log offset behind the last byte that is there."""
        return self.start + self.size

    @property
    def file_end(self) -> int:
        """Where the next file's first byte is."""
        return self.start + self.room

    def open(self) -> Bytes:
        """Its bytes, mapped for reading."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise EnvironmentFault(f"cannot read {self.path}: {error.strerror}") from error
        try:
            size = min(os.fstat(fd).st_size, self.size)
            return mmap.mmap(fd, size, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise EnvironmentFault(f"cannot map {self.path}: {error.strerror}") from error
        finally:
            os.close(fd)


class StoreDirectory:
    """One store directory; `name` tells it from others."""

    def __init__(self, path: str | os.PathLike[str], name: str = "") -> None:
        self.path = os.fspath(path)
        self.name = name or self.path
        self._root = Path(self.path)
        self._log = _log_folder(self._root)
        self.files = list_log(self._log)
        """Of the log, in order."""
        self.cut_files = [] if self._log == self._root else list_cut(self._root / CUT_FOLDER)
        self._maps: dict[str, Bytes] = {}
        self._borders = Borders(self._root)
        self._end: int | None = None

    def close(self) -> None:
        """Let go of the files; views that were handed out stay valid."""
        self._maps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Where the log lies -----------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Offset of the first byte kept; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Behind the last sound record, or the filler behind it, when this was first asked."""
        if self._end is None:
            self._end = self._find_end()
        return self._end

    def _find_end(self) -> int:
        for file in reversed(self.files):
            end = self._end_in(file)
            if end is not None:
                return end
        return self.start

    def _end_in(self, file: LogFile) -> int | None:
        """Where the log ends if it ends in `file`; None when that holds no sound record.

        Bodies are not read: a record whose body alone is damaged is still one.
        """
        data, end = self.data(file), None
        written = file.start + written_bytes(file.path, data)
        first = self._borders.last_before(data, file.start, written) or file.start
        for piece in scan(data, file.start, first, written, file_end=file.file_end, crc=False):
            if isinstance(piece, RecordRun):
                end = piece.end
        if end is not None and is_filler(data, end - file.start, file.file_end - end):
            return file.end
        return end

    @property
    def tail(self) -> LogDamage | None:
        """Bytes behind the end that are not zero: a torn record, or all of it when it is damaged.

        A broker that runs may be writing them at this moment.
        """
        file = self.file_at(self.end)
        if file is None:
            return None
        data = self.data(file)
        stop = file.start + written_bytes(file.path, data)
        return (
            LogDamage(self.end, stop, "no record behind the log's end") if stop > self.end else None
        )

    @property
    def confirmed(self) -> int | None:
        """What no failover takes back, as the checkpoint file last said; None when it says nothing.

        It lags behind a broker that runs, by its checkpoint interval.
        """
        return stored_confirm(RealDisk(str(self._root))) or None

    @property
    def stopped_cleanly(self) -> bool:
        """False for a broker that runs, and for one that crashed."""
        return not (self._root / ABORT).exists()

    @property
    def epochs(self) -> list[EpochSpan]:
        """Which master epoch wrote which bytes; the last one ends with the log. Empty: unknown."""
        entries = EpochFile(RealDisk(str(self._root))).entries
        return [(e.epoch, e.start, e.end) for e in with_ends(entries, self.end)]

    def gaps(self) -> list[LogDamage]:
        """Ranges between the first and the last file that no file holds."""
        found = []
        for file, following in zip(self.files, self.files[1:], strict=False):
            if file.end < following.start:
                found.append(LogDamage(file.end, following.start, "the bytes are in no file"))
        return found

    # Bytes ------------------------------------------------------------------------------------

    def data(self, file: LogFile) -> Bytes:
        """The bytes of one of the files, mapped once."""
        data = self._maps.get(file.path)
        if data is None:
            data = self._maps[file.path] = file.open()
        return data

    def file_at(self, offset: int) -> LogFile | None:
        """The file of the log that holds byte `offset`."""
        index = bisect_right(self.files, offset, key=lambda file: file.start) - 1
        return self.files[index] if index >= 0 and offset < self.files[index].end else None

    def raw(self, start: int, end: int) -> memoryview:
        """Bytes `[start, end)` of the log; without a copy when they lie in one file."""
        parts = []
        at = start
        while at < end:
            file = self.file_at(at)
            if file is None:
                raise UsageError(
                    f"{self.path}: byte {at} of the log is in no file; it has {self.start} to"
                    f" {self.files[-1].end if self.files else self.start}"
                )
            stop = min(end, file.end)
            parts.append(memoryview(self.data(file))[at - file.start : stop - file.start])
            at = stop
        if len(parts) == 1:
            return parts[0]
        return memoryview(b"".join(parts))

    # Records ----------------------------------------------------------------------------------

    def pieces(self, start: int, end: int, *, crc: bool = True) -> Iterator[RecordRun | LogDamage]:
        """Sound records and damage in `[start, end)`, both borders of records; see `scan`."""
        for file in self.files:
            low, high = max(start, file.start), min(end, file.end)
            if low < high:
                yield from scan(
                    self.data(file), file.start, low, high, file_end=file.file_end, crc=crc
                )

    def records(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(offset, size) of each sound record that begins in `[start, end)`.

        `start` may lie inside a record, `end` too. Damaged bytes are passed over.
        """
        for piece in self.pieces(self._border(start), self.end):
            if piece.start >= end:
                return
            if isinstance(piece, RecordRun):
                yield from _within(piece, start, end)

    def _border(self, offset: int) -> int:
        """A border of records no later than `offset`."""
        file = self.file_at(offset)
        if file is None:
            return max(offset, self.start)
        data = self.data(file)
        return self._borders.last_before(data, file.start, offset + 1) or file.start

    def borders(self, file: LogFile, step: int) -> list[int]:
        """Offsets of records that cut `file` into ranges of about `step` bytes, where known."""
        return self._borders.cuts(self.data(file), file.start, min(file.end, self.end), step)


def _within(run: RecordRun, start: int, end: int) -> Iterator[tuple[int, int]]:
    offsets = run.offsets.tolist()
    for offset, following in zip(offsets, [*offsets[1:], run.end], strict=True):
        if start <= offset < end:
            yield offset, following - offset


def written_bytes(path: str, data: Bytes) -> int:
    """Up to here bytes are not zero; holes are not read."""
    view = memoryview(data)
    high = _data_end(path, len(view))
    while high > 0:
        low = max(0, high - _BLOCK)
        block = bytes(view[low:high]).rstrip(b"\0")
        if block:
            return low + len(block)
        high = low
    return 0


def _data_end(path: str, size: int) -> int:
    """Behind the last range that the file system has stored."""
    end = 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
    except OSError:  # ENXIO: only a hole is left
        pass
    finally:
        os.close(fd)
    return min(end, size)


# Directories -------------------------------------------------------------------------------------


def _log_folder(root: Path) -> Path:
    if not root.is_dir():
        raise NotFound(f"there is no directory {root}; name a broker's storePathRootDir or a copy")
    if (root / LOG_FOLDER).is_dir():
        return root / LOG_FOLDER
    if any(_is_log_name(path.name) for path in root.iterdir()):
        return root
    raise NotFound(
        f"{root} is no store: it has neither a directory {LOG_FOLDER} nor log files (20 digits);"
        " name a broker's storePathRootDir, or its storePathCommitLog"
    )


def _is_log_name(name: str) -> bool:
    return len(name) == 20 and name.isdecimal()


def list_log(folder: Path) -> list[LogFile]:
    """The log's files in order; one that is empty was being made by a crash, and is left out."""
    found = sorted(
        (int(path.name), path.stat().st_size, str(path))
        for path in folder.iterdir()
        if _is_log_name(path.name) and path.is_file()
    )
    found = [each for each in found if each[1]]
    most = max((size for _, size, _ in found), default=0)
    files = []
    for index, (start, size, path) in enumerate(found):
        following = found[index + 1][0] if index + 1 < len(found) else start + most
        # Where a whole file is missing the next start tells nothing; the others' size does.
        room = following - start if following - start <= max(size, most) else most
        files.append(LogFile(path, start, min(size, room), room))
    return files


def list_cut(folder: Path) -> list[LogFile]:
    """What truncation and recovery kept: `<epoch>-<offset>.log`, `<epoch>-<offset>.<n>.log`."""
    if not folder.is_dir():
        return []
    found = []
    for path in folder.iterdir():
        head, dot, rest = path.name.partition(".")
        epoch, dash, offset = head.partition("-")
        if dot and dash and rest.endswith("log") and epoch.isdecimal() and offset.isdecimal():
            size = path.stat().st_size
            # Recovery, which knows no epochs, writes 0.
            found.append(LogFile(str(path), int(offset), size, size, True, int(epoch) or None))
    return sorted(found, key=lambda file: (file.start, file.path))
