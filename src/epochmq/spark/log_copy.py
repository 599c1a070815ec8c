"""Copies a broker's log into a store directory that an offline audit, or a broker, can open.

    commitlog/<20 digits>   the log's files, sparse, of the broker's file size
    epochFileCheckpoint     the epochs of the copied log
    checkpoint              its confirmed offset is the end of the copy
    export.json             the broker whose log is copied

Log bytes are synced to disk before the checkpoint includes them, so an interrupted copy continues
at the offset in its checkpoint. Consume queues and index are not copied: a broker rebuilds them.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epochmq.base.errors import UsageError
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.log_file_writer import LogFileWriter
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.log_export import LogExport, LogRange, open_export
from epochmq.spark.log_learner import EpochStart
from epochmq.store.checkpoint import Checkpoint, stored_confirm
from epochmq.store.epochs import EpochFile
from epochmq.store.options import StoreOptions

MARK = "export.json"
LOG_FOLDER = StoreOptions().commit_log_dir
SYNC_BYTES = 256 << 20
"""The copy is synced to disk each time so many bytes were written."""

Progress = Callable[[int, int], None]
"""Called with (bytes copied, bytes in total)."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of one call; afterwards the copy contains log offsets `[start, end)`."""

    broker: str
    start: int
    end: int
    copied_bytes: int
    seconds: float
    reconnected: int


def export_log(
    name_server: str,
    broker: str,
    directory: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    tls: OutgoingTls | None = None,
) -> Exported:
    """Copy the confirmed log of `broker` into `directory`, or continue such a copy.

    Reads from the current master of broker group `broker`, after a failover from the new one.
    `progress` is called with bytes copied and bytes in total. Raises `UsageError` for a directory
    with other files, and `NotReachable` when there is no master.
    """
    copy = LogCopy(Path(directory), broker)
    export = open_export(name_server, broker, copy.end, None, copy.entries, tls)
    return copy_log(copy, export, broker, progress)


def copy_log(
    copy: "LogCopy", export: LogExport, broker: str, progress: Progress | None = None
) -> Exported:
    """Copy all ranges of `export`."""
    began, first = time.monotonic(), copy.end
    for piece in export.ranges():
        copy.write(piece, export)
        if progress is not None and export.end is not None:
            progress(piece.end - export.began, export.end - export.began)
    copied = copy.written - (first or export.began)
    copy.save(export)
    seconds = time.monotonic() - began
    return Exported(broker, copy.start, copy.end, copied, seconds, export.reconnected)


class LogCopy:
    """The directory of a copy; the log below `end` is known to be on disk."""

    def __init__(self, directory: Path, broker: str) -> None:
        self._root = directory
        self._broker = broker
        self._check_owner()
        self._disk = RealDisk(str(directory))
        self._log = directory / LOG_FOLDER
        self._log.mkdir(exist_ok=True)
        self.end = stored_confirm(self._disk)
        self.written = self.end
        """The log is written to the files below this offset; `end` follows after the next sync."""
        self._writer = LogFileWriter(self._log)
        epochs = EpochFile(self._disk).entries
        self.entries = [EpochStart(each.epoch, each.start) for each in epochs]

    @property
    def start(self) -> int:
        """The log offset of the first byte."""
        names = sorted(name for name in os.listdir(self._log) if name.isdecimal())
        return int(names[0]) if names else self.end

    def _check_owner(self) -> None:
        mark = self._root / MARK
        if mark.exists():
            owner = json.loads(mark.read_text()).get("brokerName")
            if owner != self._broker:
                raise UsageError(
                    f"{self._root} holds the copy of broker {owner}, not of {self._broker}; give"
                    " another directory"
                )
            return
        if self._root.exists() and any(self._root.iterdir()):
            raise UsageError(
                f"{self._root} is not empty and holds no copy made here; give a directory of its"
                " own, so that nothing is overwritten"
            )
        self._root.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps({"brokerName": self._broker}) + "\n")

    def write(self, piece: LogRange, export: LogExport) -> None:
        """Write a range at its place."""
        self._writer.write(piece.offset, piece.data, export.file_bytes)
        self.written = piece.end
        if self.written - self.end >= SYNC_BYTES:
            self.save(export)

    def save(self, export: LogExport) -> None:
        """Sync log, epochs and checkpoint to disk, in this order."""
        self._writer.sync()
        epochs = EpochFile(self._disk)
        last = epochs.last_epoch
        for entry in export.entries:
            if entry.epoch > last and entry.start < max(self.written, 1):
                epochs.append(entry.epoch, entry.start)
        checkpoint = Checkpoint(self._disk)
        checkpoint.load()
        checkpoint.confirmed = self.written
        checkpoint.write()
        checkpoint.sync()
        checkpoint.close()
        self.end = self.written
