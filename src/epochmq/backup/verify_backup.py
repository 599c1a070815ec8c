"""Checks backups: every piece of the log against its SHA-256, and every record in it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from epochmq.backup.backup_files import BackupFiles
from epochmq.backup.backup_snapshot import Piece
from epochmq.backup.record_check import RecordCheck
from epochmq.base.errors import EpochError, StoreDamaged

Progress = Callable[[int, int], None]
"""Called with (pieces checked, pieces in total)."""


@dataclass
class CheckedBackups:
    """The result of a check; the backups are sound if `problems` is empty."""

    snapshots: int = 0
    pieces: int = 0
    log_bytes: int = 0
    problems: list[str] = field(default_factory=list)


def verify_backups(files: BackupFiles, progress: Progress | None = None) -> CheckedBackups:
    """Read all snapshots of a broker group and all their pieces; each piece is read once."""
    found = CheckedBackups()
    wanted: dict[tuple[int, int], tuple[Piece, int]] = {}
    for snapshot_id in files.ids():
        try:
            snapshot = files.snapshot(snapshot_id)
        except EpochError as error:
            found.problems.append(str(error))
            continue
        found.snapshots += 1
        wanted |= {(p.start, p.end): (p, snapshot.file_bytes) for p in snapshot.pieces}
    checks: dict[int, RecordCheck] = {}
    for piece, file_bytes in wanted.values():
        try:
            data = files.read_piece(piece)
            if file_bytes not in checks:
                checks[file_bytes] = RecordCheck(file_bytes)
            sound, problem = checks[file_bytes].sound_bytes(memoryview(data), piece.start)
            if sound < len(data):
                at, why = piece.start + sound, problem or "incomplete record"
                raise StoreDamaged(f"{files.url}: the log is damaged at {at:,} ({why})")
        except EpochError as error:
            found.problems.append(str(error))
        found.pieces += 1
        found.log_bytes += piece.end - piece.start
        if progress is not None:
            progress(found.pieces, len(wanted))
    return found
