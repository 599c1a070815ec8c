"""Read-only access to a store directory on disk: log files, truncated log, epochs, confirmed
offset.

Files are opened for reading only, without locks. The directory may therefore belong to a running
broker, be a copy, or be mounted read-only. A file that retention deletes in the meantime stays
readable while it is open here.

A store directory is recognised by its `commitlog` directory. A directory that itself has log files
(names of 20 digits) is also accepted, without epochs and without truncated log.
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
    """The log offset of its first byte, from its name."""
    size: int
    """Its size in bytes."""
    room: int
    """The size that it should have, in bytes: up to the next file's start."""
    cut: bool = False
    """Whether truncation kept the file; its bytes are no longer in the log."""
    epoch: int | None = None
    """For a truncated file: the epoch in its name, or None when that is unknown."""

    @property
    def end(self) -> int:
        """The log offset after its last byte."""
        return self.start + self.size

    @property
    def file_end(self) -> int:
        """The log offset of the next file's first byte."""
        return self.start + self.room

    def open(self) -> Bytes:
        """Map the file's bytes for reading; raises `EnvironmentFault` when that fails."""
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
    """One store directory; `name` identifies it, by default its path."""

    def __init__(self, path: str | os.PathLike[str], name: str = "") -> None:
        self.path = os.fspath(path)
        self.name = name or self.path
        self._root = Path(self.path)
        self._log = _log_folder(self._root)
        self.files = list_log(self._log)
        """The log's files in order."""
        self.cut_files = [] if self._log == self._root else list_cut(self._root / CUT_FOLDER)
        self._maps: dict[str, Bytes] = {}
        self._borders = Borders(self._root)
        self._end: int | None = None

    def close(self) -> None:
        """Release the files; views that were returned stay valid."""
        self._maps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Extent of the log ------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """The log offset of the first byte; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """The log offset after the last sound record (or the filler that follows it), computed
        once.
        """
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
        """Return where the log ends if it ends in `file`; None when `file` has no sound record.

        Bodies are not read: a record of which only the body is damaged counts as sound.
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
        """Bytes after the log's end that are not zero: a torn or damaged record, or later records.

        A running broker may be writing them now.
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
        """The confirmed offset in the checkpoint file, which no failover truncates; None without
        it.

        For a running broker it lags by the checkpoint interval.
        """
        return stored_confirm(RealDisk(str(self._root))) or None

    @property
    def stopped_cleanly(self) -> bool:
        """False while a broker runs, and after a crash."""
        return not (self._root / ABORT).exists()

    @property
    def epochs(self) -> list[EpochSpan]:
        """Epochs with their ranges of the log; the last one ends with the log. Empty when
        unknown.
        """
        entries = EpochFile(RealDisk(str(self._root))).entries
        return [(e.epoch, e.start, e.end) for e in with_ends(entries, self.end)]

    def gaps(self) -> list[LogDamage]:
        """Return the ranges between the first and the last file that are in no file."""
        found = []
        for file, following in zip(self.files, self.files[1:], strict=False):
            if file.end < following.start:
                found.append(LogDamage(file.end, following.start, "the bytes are in no file"))
        return found

    # Bytes ------------------------------------------------------------------------------------

    def data(self, file: LogFile) -> Bytes:
        """Return the bytes of one of the files, mapped once."""
        data = self._maps.get(file.path)
        if data is None:
            data = self._maps[file.path] = file.open()
        return data

    def file_at(self, offset: int) -> LogFile | None:
        """Return the log file that contains byte `offset`; None when no file does."""
        index = bisect_right(self.files, offset, key=lambda file: file.start) - 1
        return self.files[index] if index >= 0 and offset < self.files[index].end else None

    def raw(self, start: int, end: int) -> memoryview:
        """Return bytes `[start, end)` of the log, without a copy when they are in one file.

        Raises `UsageError` for bytes that are in no file.
        """
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
        """Yield sound records and damage in `[start, end)`, both of which must be record borders
        (`scan`).
        """
        for file in self.files:
            low, high = max(start, file.start), min(end, file.end)
            if low < high:
                yield from scan(
                    self.data(file), file.start, low, high, file_end=file.file_end, crc=crc
                )

    def records(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (offset, size) of each sound record that begins in `[start, end)`.

        `start` and `end` may lie inside a record. Damaged bytes are skipped.
        """
        for piece in self.pieces(self._border(start), self.end):
            if piece.start >= end:
                return
            if isinstance(piece, RecordRun):
                yield from _within(piece, start, end)

    def _border(self, offset: int) -> int:
        """Return a record border that is at or before `offset`."""
        file = self.file_at(offset)
        if file is None:
            return max(offset, self.start)
        data = self.data(file)
        return self._borders.last_before(data, file.start, offset + 1) or file.start

    def borders(self, file: LogFile, step: int) -> list[int]:
        """Return record offsets that split `file` into ranges of about `step` bytes, where
        known.
        """
        return self._borders.cuts(self.data(file), file.start, min(file.end, self.end), step)


def _within(run: RecordRun, start: int, end: int) -> Iterator[tuple[int, int]]:
    offsets = run.offsets.tolist()
    for offset, following in zip(offsets, [*offsets[1:], run.end], strict=True):
        if start <= offset < end:
            yield offset, following - offset


def written_bytes(path: str, data: Bytes) -> int:
    """Return the number of bytes up to the last one that is not zero; holes are not read."""
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
    """Return the end of the last range that the file system has stored."""
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
        f"{root} is not a store: it has neither a directory {LOG_FOLDER} nor log files (20 digits);"
        " name a broker's storePathRootDir, or its storePathCommitLog"
    )


def _is_log_name(name: str) -> bool:
    return len(name) == 20 and name.isdecimal()


def list_log(folder: Path) -> list[LogFile]:
    """Return the log's files in order, without empty ones, which a crash left during creation."""
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
        # After a missing file the next file's start is no help; the size of the other files is.
        room = following - start if following - start <= max(size, most) else most
        files.append(LogFile(path, start, min(size, room), room))
    return files


def list_cut(folder: Path) -> list[LogFile]:
    """Return the files that truncation and recovery kept.

    Their names are `<epoch>-<offset>.log` and `<epoch>-<offset>.<n>.log`.
    """
    if not folder.is_dir():
        return []
    found = []
    for path in folder.iterdir():
        head, dot, rest = path.name.partition(".")
        epoch, dash, offset = head.partition("-")
        if dot and dash and rest.endswith("log") and epoch.isdecimal() and offset.isdecimal():
            size = path.stat().st_size
            # Recovery does not know epochs and writes 0.
            found.append(LogFile(str(path), int(offset), size, size, True, int(epoch) or None))
    return sorted(found, key=lambda file: (file.start, file.path))
