"""A snapshot: the description of one backup of a broker group, as a JSON file with a checksum.

The log itself is in pieces, files that several snapshots share (`backup_files.py`).
"""

import hashlib
import re

import msgspec

from epochmq.base.errors import PeerError, StoreDamaged
from epochmq.model.saved_file import Edited, check_seal, seal
from epochmq.wire import json_tolerant

FORMAT = 1
"""Version of the file format; a reader refuses a newer one."""

_ID = re.compile(r"\d{8}T\d{6}\.\d{3}Z")


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes `[start, end)` of the log in one file: whole records only."""

    start: int
    end: int
    sha256: str
    """SHA-256 of the bytes in hexadecimal."""


def piece_of(start: int, data: bytes | memoryview) -> Piece:
    """Return the description of log bytes that begin at `start`."""
    return Piece(start, start + len(data), hashlib.sha256(data).hexdigest())


class BackupSnapshot(msgspec.Struct, frozen=True):
    """One backup of a broker group. Offsets are bytes of the commit log."""

    id: str
    """Time (UTC) at which the tables were read, such as 20261128T181134.123Z."""
    cluster: str
    broker_name: str
    version: str
    """The EpochMQ release that made the backup."""
    file_bytes: int
    """Size of a log file (mappedFileSizeCommitLog)."""
    log_start: int
    """The first byte that the broker still had; the first piece may begin before it."""
    log_end: int
    pieces: list[Piece]
    """In the order of the log, without a gap; the last one ends at `log_end`."""
    tables: dict[str, bytes]
    """Content of each table file by its path below the broker's storePathRootDir."""
    format: int = FORMAT

    def check(self) -> None:
        """Raise `StoreDamaged` if the pieces do not make up the log."""
        at = self.pieces[0].start if self.pieces else self.log_end
        begins = at
        for piece in self.pieces:
            if piece.start != at or piece.end <= piece.start:
                raise StoreDamaged(f"snapshot {self.id} has no piece of the log from {at} on")
            at = piece.end
        if self.file_bytes <= 0 or at != self.log_end or not begins <= self.log_start <= at:
            raise StoreDamaged(
                f"snapshot {self.id} should hold the log from {self.log_start} to {self.log_end},"
                f" but its pieces hold {begins} to {at}"
            )


def encode_snapshot(snapshot: BackupSnapshot) -> bytes:
    """Return the file of a snapshot; table contents are in Base64."""
    return seal(msgspec.json.format(msgspec.json.encode(snapshot), indent=2))


def decode_snapshot(path: str, data: bytes) -> BackupSnapshot:
    """Decode the file `path`; raises `StoreDamaged` if it is damaged or of a newer format."""
    try:
        if check_seal(data) is None:
            raise ValueError("it has no checksum")
        content = json_tolerant.loads(data)
        found = content.get("format") if isinstance(content, dict) else None
        if isinstance(found, int) and found > FORMAT:
            raise StoreDamaged(f"{path} has format {found}; a newer release of EpochMQ reads it")
        snapshot = msgspec.convert(content, BackupSnapshot)
    except Edited:
        raise StoreDamaged(f"{path} is damaged: its checksum is wrong") from None
    except (PeerError, ValueError) as error:
        raise StoreDamaged(f"{path} is damaged: {error}") from None
    snapshot.check()
    return snapshot


def is_snapshot_id(text: str) -> bool:
    """Return whether `text` has the form of a snapshot's id."""
    return _ID.fullmatch(text) is not None
