"""Restores a snapshot into a store directory on which a broker can be started.

The directory holds the file `unfinishedRestore` until everything is on disk; a broker refuses to
start on it meanwhile. A restore that was interrupted starts again from the beginning.

The whole log becomes epoch 0, because the controllers of a new cluster count from 1. So replicas
that are restored from the same snapshot agree about it.
"""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epochmq.backup.backup_files import BackupFiles
from epochmq.backup.backup_snapshot import BackupSnapshot
from epochmq.backup.broker_tables import file_of
from epochmq.backup.record_check import RecordCheck
from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.log_file_writer import LogFileWriter
from epochmq.store import checkpoint, epochs
from epochmq.store.checkpoint import Checkpoint
from epochmq.store.epochs import EpochFile
from epochmq.store.options import StoreOptions
from epochmq.store.store import LOCK
from epochmq.store.store_files import UNFINISHED_RESTORE
from epochmq.tables.storage import sync_directory

LOG_FOLDER = StoreOptions().commit_log_dir
_OWN = ("config", checkpoint.FILE, epochs.FILE, f"{epochs.FILE}.bak", UNFINISHED_RESTORE, LOCK)
_IGNORED = ("lost+found",)
LOG_NAME_DIGITS = 20
"""A log file is named by its first offset, with leading zeros."""
SYNC_BYTES = 256 << 20

Progress = Callable[[int, int], None]
"""Called with (bytes of the log written, bytes in total)."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    log_bytes: int
    seconds: float


def restore_backup(
    files: BackupFiles,
    snapshot: BackupSnapshot,
    directory: Path,
    log_directory: Path | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Write the log and the tables of `snapshot` into `directory`.

    Every piece is compared with its SHA-256, and every record is checked.

    Args:
        files: the backups of the broker group.
        snapshot: one of them.
        directory: the broker's storePathRootDir; it must be empty, or hold an interrupted restore.
        log_directory: the broker's storePathCommitLog; None means `directory`/commitlog.
        progress: called after each piece.

    Raises:
        UsageError: a directory holds something else.
        StoreDamaged: the backup is damaged; the error names the file.
        EnvironmentFault: the disk refuses.
    """
    began = time.monotonic()
    log = log_directory or directory / LOG_FOLDER
    _check_target(directory, log)
    directory.mkdir(parents=True, exist_ok=True)
    disk = RealDisk(str(directory))
    lock = disk.lock(LOCK)
    try:
        disk.write_file(UNFINISHED_RESTORE, json.dumps({"log": str(log.absolute())}).encode())
        _clear(directory, log)
        log.mkdir(parents=True, exist_ok=True)
        sync_directory(log.parent)
        _write_log(files, snapshot, log, progress)
        for path, table in snapshot.tables.items():
            disk.write_file(path, file_of(path, table))
        EpochFile(disk).append(0, snapshot.log_start)
        _write_checkpoint(disk, snapshot)
        disk.remove(UNFINISHED_RESTORE)
        disk.sync_dir("")
    finally:
        lock.release()
    return Restored(snapshot.log_end - snapshot.log_start, time.monotonic() - began)


def _check_target(directory: Path, log: Path) -> None:
    """Raise `UsageError` if something other than an interrupted restore would be overwritten."""
    marker = directory / UNFINISHED_RESTORE
    own: tuple[str, ...] = ()
    if marker.is_file():
        own = (*_OWN, LOG_FOLDER)
        before = _log_of(marker)
        if before != str(log.absolute()):
            raise UsageError(
                f"a restore into {directory} with the log in {before} did not end: run it again in"
                " the same way, or empty both directories"
            )
    drafts = {f"{name}.tmp" for name in _OWN}  # of a write that was interrupted
    for place in {directory, log}:
        names = set(os.listdir(place)) if place.exists() else set()
        if own and place == log:
            names = {name for name in names if not _is_log_file(name)}
        if found := sorted(names.difference(own, drafts, _IGNORED, (LOCK,))):
            raise UsageError(
                f"{place} is not empty (it holds {found[0]}): a restore needs an empty directory,"
                " so that nothing is overwritten"
            )


def _log_of(marker: Path) -> str:
    """Return the log directory of the interrupted restore that left `marker`."""
    try:
        return str(json.loads(marker.read_bytes())["log"])
    except (ValueError, KeyError, TypeError):
        return f"a place that {marker} does not tell, because it is damaged"


def _is_log_file(name: str) -> bool:
    return len(name) == LOG_NAME_DIGITS and name.isdecimal()


def _clear(directory: Path, log: Path) -> None:
    """Remove what an interrupted restore wrote."""
    shutil.rmtree(directory / "config", ignore_errors=True)
    for name in (checkpoint.FILE, epochs.FILE, f"{epochs.FILE}.bak"):
        (directory / name).unlink(missing_ok=True)
    for each in log.iterdir() if log.exists() else ():
        if _is_log_file(each.name):
            each.unlink()


def _write_log(
    files: BackupFiles, snapshot: BackupSnapshot, log: Path, progress: Progress | None
) -> None:
    check, writer = RecordCheck(snapshot.file_bytes), LogFileWriter(log)
    unsynced, total = 0, snapshot.log_end - snapshot.log_start
    for start, data in files.read_log(snapshot):
        sound, problem = check.sound_bytes(memoryview(data), start)
        if sound < len(data):
            raise StoreDamaged(
                f"the log in snapshot {snapshot.id} is damaged at {start + sound:,}"
                f" ({problem or 'incomplete record'}): restore an older snapshot"
            )
        writer.write(start, data, snapshot.file_bytes)
        unsynced += len(data)
        if unsynced >= SYNC_BYTES:
            writer.sync()
            unsynced = 0
        if progress is not None:
            progress(start + len(data) - snapshot.log_start, total)
    writer.sync()


def _write_checkpoint(disk: RealDisk, snapshot: BackupSnapshot) -> None:
    """Write that the whole log is on disk and ends where it ends: nothing in it counts as torn."""
    written = Checkpoint(disk)
    written.load()
    written.confirmed = snapshot.log_end
    written.claim(snapshot.log_start, snapshot.log_end, clean=True)
    written.write()
    written.sync()
    written.close()
