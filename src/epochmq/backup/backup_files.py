"""The files of backups below one root: a directory, or a URL that fsspec opens.

    CLUSTER/BROKER_NAME/snapshots/ID.json     one file for each backup
    CLUSTER/BROKER_NAME/log/START-END.log     pieces of the log, which never change

A piece is written before the first snapshot that names it, and deleted after the last one. A piece
without a snapshot is what an interrupted backup left; the next backup uses it again.
"""

from collections.abc import Iterator
from urllib.parse import quote, unquote

from epochmq.backup.backup_snapshot import (
    BackupSnapshot,
    Piece,
    decode_snapshot,
    encode_snapshot,
    is_snapshot_id,
    piece_of,
)
from epochmq.base.errors import NotFound, StoreDamaged, UsageError
from epochmq.tables.storage import Storage

_SNAPSHOTS, _LOG = "snapshots", "log"
_DIGITS = 20


def open_backups(url: str) -> Storage:
    """Return the files below `url`, a directory or a URL such as s3://bucket/path."""
    return Storage(url, extra="backup")


def broker_groups_in(storage: Storage) -> list[tuple[str, str]]:
    """Return (cluster, broker name) of each broker group that has a backup."""
    return [
        (unquote(cluster), unquote(name))
        for cluster in storage.directories("")
        for name in storage.directories(cluster)
        if storage.sizes(f"{cluster}/{name}/{_SNAPSHOTS}")
    ]


def _folder(name: str) -> str:
    """Return a broker's or cluster's name as the name of a directory."""
    if not name or name.startswith("."):
        raise UsageError(f"the name {name!r} cannot be the name of a directory")
    return quote(name, safe="")


class BackupFiles:
    """The backups of one broker group."""

    def __init__(self, storage: Storage, cluster: str, broker_name: str) -> None:
        self._storage = storage
        self.cluster, self.broker_name = cluster, broker_name
        self._root = f"{_folder(cluster)}/{_folder(broker_name)}"

    @property
    def url(self) -> str:
        """Where the backups of this broker group are, for messages."""
        return self._storage.url(self._root)

    # Snapshots -------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """Return the ids of all snapshots, the oldest first."""
        names = self._storage.sizes(f"{self._root}/{_SNAPSHOTS}")
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(each for each in found if is_snapshot_id(each))

    def snapshot(self, snapshot_id: str) -> BackupSnapshot:
        """Read a snapshot. Raises `NotFound`, or `StoreDamaged` if the file is damaged."""
        ids = self.ids()
        if snapshot_id not in ids:
            known = f"the newest one is {ids[-1]}" if ids else "there is none"
            raise NotFound(f"{self.url} has no snapshot {snapshot_id}; {known}")
        path = self._snapshot_path(snapshot_id)
        data = b"".join(self._storage.blocks(path))
        found = decode_snapshot(self._storage.url(path), data)
        if found.id != snapshot_id:
            raise StoreDamaged(f"{self._storage.url(path)} holds snapshot {found.id}")
        return found

    def latest(self) -> BackupSnapshot | None:
        """Return the newest snapshot; None if there is none."""
        ids = self.ids()
        return self.snapshot(ids[-1]) if ids else None

    def write_snapshot(self, snapshot: BackupSnapshot) -> None:
        """Write a snapshot; its pieces must have been written before."""
        self._storage.write_whole(self._snapshot_path(snapshot.id), encode_snapshot(snapshot))

    def _snapshot_path(self, snapshot_id: str) -> str:
        return f"{self._root}/{_SNAPSHOTS}/{snapshot_id}.json"

    # Pieces of the log -----------------------------------------------------------------------

    def pieces(self) -> dict[tuple[int, int], int]:
        """Return the size in bytes of each piece by its (start, end)."""
        whole = (each for each in self._log_files() if not each[0].startswith("."))
        return {(start, end): size for _, start, end, size in whole}

    def _log_files(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield (name, start, end, bytes) of pieces, and of the drafts of interrupted writes."""
        for name, size in self._storage.sizes(f"{self._root}/{_LOG}").items():
            start, _, end = name.removeprefix(".").removesuffix(".log").partition("-")
            if start.isdecimal() and end.isdecimal() and name.endswith(".log"):
                yield name, int(start), int(end), size

    def write_piece(self, start: int, data: bytes | memoryview) -> Piece:
        """Write a piece of the log that begins at offset `start`."""
        piece = piece_of(start, data)
        self._storage.write_whole(self._piece_path(piece.start, piece.end), data)
        return piece

    def piece_bytes(self, start: int, end: int) -> bytes:
        """Read a piece. Raises `StoreDamaged` if it is missing or has another size."""
        path = self._piece_path(start, end)
        try:
            data = b"".join(self._storage.blocks(path))
        except FileNotFoundError:
            raise StoreDamaged(f"{self._storage.url(path)} is missing") from None
        if len(data) != end - start:
            raise StoreDamaged(
                f"{self._storage.url(path)} has {len(data):,} bytes, not {end - start:,}"
            )
        return data

    def read_piece(self, piece: Piece) -> bytes:
        """Read a piece of a snapshot. Raises `StoreDamaged` if it is not what was written."""
        data = self.piece_bytes(piece.start, piece.end)
        if piece_of(piece.start, data) != piece:
            where = self._storage.url(self._piece_path(piece.start, piece.end))
            raise StoreDamaged(f"{where} is damaged: its SHA-256 is not that of the backup")
        return data

    def read_log(self, snapshot: BackupSnapshot) -> Iterator[tuple[int, bytes]]:
        """Yield (log offset, bytes) of the log of a snapshot, from its start on."""
        for piece in snapshot.pieces:
            data, skipped = self.read_piece(piece), max(snapshot.log_start - piece.start, 0)
            if skipped < len(data):
                yield piece.start + skipped, data[skipped:]

    def _piece_path(self, start: int, end: int) -> str:
        return f"{self._root}/{_LOG}/{start:0{_DIGITS}d}-{end:0{_DIGITS}d}.log"

    # Pruning ---------------------------------------------------------------------------------

    def prune(self, keep: int) -> tuple[list[str], int]:
        """Delete all but the newest `keep` snapshots, and the pieces that only they need.

        Pieces behind the newest snapshot stay: a backup that runs now may be writing them. The
        snapshots are deleted first, so that an interrupted call never leaves one without its log.

        Returns:
            The ids that were deleted, and the bytes of the deleted pieces.
        """
        if keep < 1:
            raise UsageError("at least one snapshot must be kept")
        ids = self.ids()
        kept = [self.snapshot(each) for each in ids[-keep:]]
        if not kept:
            return [], 0
        needed = {(piece.start, piece.end) for each in kept for piece in each.pieces}
        dropped = ids[:-keep]
        for each in dropped:
            self._storage.remove(self._snapshot_path(each))
        freed = 0
        for name, start, end, size in list(self._log_files()):
            is_needed = (start, end) in needed and not name.startswith(".")
            if not is_needed and end <= kept[-1].log_end:
                self._storage.remove(f"{self._root}/{_LOG}/{name}")
                freed += size
        return dropped, freed
