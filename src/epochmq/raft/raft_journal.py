"""The journal of one node: term, vote, entries and snapshot in one file.

The first records of the file are the snapshot and the state when the file was created. New records
are added at the end; an entry replaces all entries with its index or a higher one. When a snapshot
makes the journal shorter, a new file replaces the old one by rename.

`save` and `rewrite` only collect records. `pop_writes` returns one blocking call that writes and
syncs everything collected so far (group commit). It may run in another thread, one call at a time.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from epochmq.base.errors import EnvironmentFault, StoreDamaged, check
from epochmq.base.ports import Disk, File, Lock
from epochmq.raft.journal_records import RecordKind, Scan, encode, size_of
from epochmq.raft.outbox import Ready, SavedState
from epochmq.raft.raft_messages import HardState, LogEntry, Snapshot, VotersAndLearners

FILE = "journal"
LOCK = "lock"
CHUNK_BYTES = 1024 * 1024
"""The file grows in steps of this size, so that most syncs change no metadata."""

_encode = msgspec.msgpack.Encoder().encode


COMMIT_LAST = 1
"""Order of the records in one write: the commit index follows the entries that it covers."""


class _Birth(msgspec.Struct, frozen=True, array_like=True):
    """Body of the first record; the size field has a fixed length."""

    owner: str
    born_bytes: bytes
    order: int = 0
    """`COMMIT_LAST`; 0 in files of versions that wrote the commit index before the entries."""
    incarnation: str = ""
    confirmed: bool = True
    """`incarnation` and `confirmed` are as in `SavedState`."""


@dataclass
class _Batch:
    """The records of one write and one sync."""

    whole: SavedState | None = None
    """The file is created again and begins with this state."""
    records: list[tuple[RecordKind, bytes]] = field(default_factory=list)
    state: HardState | None = None
    """The newest term, vote and commit index in the batch."""


class Journal:
    """The journal of one node, in a directory of its own.

    Args:
        disk: the disk.
        folder: path of the directory.
        owner: name of the node; the journal of another node is refused.
        chunk_bytes: the file grows in steps of this size.
    """

    def __init__(
        self, disk: Disk, folder: str, *, owner: str = "", chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{FILE}"
        self._owner = owner
        self._chunk_bytes = chunk_bytes
        self._batch = _Batch()
        self._file: File | None = None
        self._lock: Lock | None = None
        self._allocated = 0
        self._incarnation = ""
        self._confirmed = True
        self._last = HardState()
        self._last_index = 0
        self._on_device = HardState()
        """Term, vote and commit index that a start would read now."""
        self._is_whole = True
        """The last write is completely on the device."""
        self.end = 0
        """Bytes used in the file; all of them are on the device."""
        self.must_sync = False
        """Records were collected that messages wait for."""

    def load(self, bootstrap: VotersAndLearners, incarnation: str = "") -> SavedState:
        """Read the journal, or create it.

        Args:
            bootstrap: the members of a new journal.
            incarnation: name of the disk; a new journal with a name is not confirmed.

        Raises:
            StoreDamaged: the journal cannot be trusted.
            StoreInUse: another process uses it.
        """
        self._make_folder()
        self._lock = self._disk.lock(f"{self._folder}/{LOCK}")
        data = self._disk.read_file(self._path)
        if data is None:
            empty = Snapshot(0, 0, bootstrap)
            saved, torn = SavedState(HardState(), empty, (), incarnation, not incarnation), True
        else:
            saved, torn, self.end = self._replay(data)
            self._allocated = len(data)
        if torn:
            self._write_whole(_Batch(saved))
        else:
            self._file = self._disk.open(self._path)
        self._last = self._on_device = saved.hard_state
        self._last_index = saved.snapshot.index + len(saved.entries)
        self._incarnation, self._confirmed = saved.incarnation, saved.confirmed
        return saved

    def _make_folder(self) -> None:
        """Create the directory and sync its parents, because a lost directory loses the journal."""
        self._disk.make_dir(self._folder)
        parts = self._folder.split("/")
        for depth in range(len(parts)):
            self._disk.sync_dir("/".join(parts[:depth]))

    def close(self, *, clean: bool = False) -> None:
        """Close the file and release the lock; collected records that were not written are lost.

        A `clean` stop adds a record without new content. It shows the next start that everything
        before it was on the device, so that a bad record there is damage and not a torn write.
        """
        if clean and self._file is not None and self._is_whole:
            with suppress(EnvironmentFault):
                last = (RecordKind.HARD_STATE, _encode(self._on_device))
                self._write(_Batch(records=[last], state=self._on_device))
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    # Remembering ------------------------------------------------------------------------------

    def save(self, ready: Ready) -> None:
        """Collect the new content of a batch of the core: term and vote, entries, commit index.

        A power failure keeps a prefix of what is written. So the term is written before entries of
        that term, and a commit index after the entries that it covers. Otherwise a restart would
        treat older entries as committed that the new ones replace.
        """
        state = ready.hard_state or self._last
        if ready.snapshot is not None:
            before = HardState(state.term, state.vote, ready.snapshot.index)
            self.rewrite(SavedState(before, ready.snapshot, (), self._incarnation, self._confirmed))
        elif (state.term, state.vote) != (self._last.term, self._last.vote):
            self._save_state(HardState(state.term, state.vote, self._last.commit))
        for entry in ready.entries:
            check(entry.index <= self._last_index + 1, "INV-02 the journal has no gap")
            self._last_index = entry.index
            self._add(RecordKind.ENTRY, _encode(entry))
        if state != self._last:
            check(state.commit <= self._last_index, "INV-05 what is committed is in the journal")
            self._save_state(state)
        self.must_sync = self.must_sync or ready.must_sync

    def _save_state(self, state: HardState) -> None:
        self._check_promises(state)
        self._add(RecordKind.HARD_STATE, _encode(state))
        self._batch.state = state

    def rewrite(self, saved: SavedState) -> None:
        """Replace the file with the next write by this state and what is saved later."""
        self._check_promises(saved.hard_state)
        self._batch = _Batch(saved, state=saved.hard_state)
        self._confirmed = saved.confirmed
        self.must_sync = True
        self._last_index = saved.snapshot.index + len(saved.entries)

    def _add(self, kind: RecordKind, body: bytes) -> None:
        self._batch.records.append((kind, body))

    def _check_promises(self, state: HardState) -> None:
        last = self._last
        check(state.term >= last.term, "INV-05 the term never goes back")
        check(state.commit >= last.commit, "INV-05 the commit index never goes back")
        self._last = state

    # Writing ----------------------------------------------------------------------------------

    def pop_writes(self) -> Callable[[], None]:
        """Return a blocking call that writes and syncs everything collected so far.

        The call raises:
            SyncFailed, DiskFailed, DiskFull: the node must stop; the next start reads what is on
            disk.
            OutOfResources: nothing is lost; the same call may be made again.
        """
        batch, self._batch = self._batch, _Batch()
        self.must_sync = False
        return lambda: self._write(batch)

    def sync(self) -> None:
        """Write and sync everything collected so far, and wait for it."""
        self.pop_writes()()

    def _write(self, batch: _Batch) -> None:
        self._is_whole = False
        if batch.whole is not None:
            self._write_whole(batch)
        else:
            self._append(batch)
        self._on_device = batch.state or self._on_device
        self._is_whole = True

    def _append(self, batch: _Batch) -> None:
        assert self._file is not None
        data = b"".join(encode(kind, body, self.end) for kind, body in batch.records)
        stop = self.end + len(data)
        if stop > self._allocated:
            self._grow(self._file, stop)
        self._file.write(self.end, data)
        self._file.sync()
        self.end = stop

    def _grow(self, file: File, stop: int) -> None:
        size = -(-stop // self._chunk_bytes) * self._chunk_bytes
        file.truncate(size)
        file.allocate(self._allocated, size - self._allocated)
        self._allocated = size

    def _write_whole(self, batch: _Batch) -> None:
        """Write a new file and rename it to the place of the old one."""
        saved = batch.whole
        assert saved is not None
        bodies = [
            (RecordKind.SNAPSHOT, _encode(saved.snapshot)),
            (RecordKind.HARD_STATE, _encode(saved.hard_state)),
            *((RecordKind.ENTRY, _encode(entry)) for entry in saved.entries),
            *batch.records,
        ]
        birth = _Birth(self._owner, bytes(8), COMMIT_LAST, saved.incarnation, saved.confirmed)
        end = size_of(_encode(birth)) + sum(size_of(body) for _kind, body in bodies)
        birth = msgspec.structs.replace(birth, born_bytes=end.to_bytes(8, "big"))
        records = [
            encode(kind, body, 0) for kind, body in [(RecordKind.BIRTH, _encode(birth)), *bodies]
        ]
        size = -(-end // self._chunk_bytes) * self._chunk_bytes
        self._disk.write_file(self._path, b"".join(records).ljust(size, b"\0"))
        if self._file is not None:
            self._file.close()
            self._file = None
        self._file = self._disk.open(self._path)
        self._allocated, self.end = size, end

    # Reading ----------------------------------------------------------------------------------

    def _replay(self, data: bytes) -> tuple[SavedState, bool, int]:
        """Return (state, whether the file must be created again, end of the valid part)."""
        scan = Scan(data, self._path)
        replay = _Replay(self._path)
        birth = _Birth("", b"")
        for kind, body in scan.records():
            try:
                if kind is RecordKind.BIRTH:
                    birth = msgspec.msgpack.decode(body, type=_Birth)
                    scan.born_bytes = int.from_bytes(birth.born_bytes, "big")
                    self._check_owner(birth.owner)
                else:
                    replay.add_record(kind, body, scan.synced)
            except msgspec.DecodeError as problem:
                raise StoreDamaged(f"{self._path}: a record makes no sense: {problem}") from None
        commit_last = birth.order == COMMIT_LAST
        saved = replay.saved(trust_last_write=commit_last)
        saved = replace(saved, incarnation=birth.incarnation, confirmed=birth.confirmed)
        return saved, scan.torn or not commit_last, scan.end

    def _check_owner(self, owner: str) -> None:
        if owner and self._owner and owner != self._owner:
            raise StoreDamaged(
                f"{self._path} belongs to Raft node {owner}, this is {self._owner}: each node"
                " needs its own directory; check the configured paths and the node's name"
            )


class _Replay:
    """Builds the state from a sequence of records."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._hard_state = HardState()
        self._snapshot: Snapshot | None = None
        self._entries: list[LogEntry] = []
        self._write_began_at = 0
        """Position in the file at which the write of the newest record began."""
        self._commit_before = 0
        """The commit index before that write."""

    def add_record(self, kind: RecordKind, body: bytes, synced: int) -> None:
        """Add one record, which was written when `synced` bytes of the file were on the device."""
        if synced != self._write_began_at:
            self._write_began_at, self._commit_before = synced, self._hard_state.commit
        if kind is RecordKind.HARD_STATE:
            self._hard_state = msgspec.msgpack.decode(body, type=HardState)
        elif kind is RecordKind.SNAPSHOT:
            self._snapshot = msgspec.msgpack.decode(body, type=Snapshot)
        else:
            self._add_entry(msgspec.msgpack.decode(body, type=LogEntry))

    def _add_entry(self, entry: LogEntry) -> None:
        first = 1 if self._snapshot is None else self._snapshot.index + 1
        at = entry.index - first
        if not 0 <= at <= len(self._entries):
            raise StoreDamaged(
                f"{self._name}: entry {entry.index} does not follow entry"
                f" {first + len(self._entries) - 1}; restore the file, or"
                " delete the directory while the others have a leader"
            )
        del self._entries[at:]
        self._entries.append(entry)

    def saved(self, *, trust_last_write: bool) -> SavedState:
        """Return the state.

        Args:
            trust_last_write: False uses the commit index from before the last write, because old
                versions wrote it before entries that may be torn off. A commit index may be too
                old.

        Raises:
            StoreDamaged: there is no snapshot, or committed entries are missing.
        """
        if self._snapshot is None:
            raise StoreDamaged(f"{self._name} does not begin with a snapshot; restore the file")
        last = self._snapshot.index + len(self._entries)
        state = self._hard_state
        if trust_last_write and state.commit > last:
            raise StoreDamaged(
                f"{self._name}: entries up to {state.commit} were committed, and it ends at {last};"
                " restore the file, or"
                " delete the directory while the others have a leader"
            )
        in_last_write = self._write_began_at > 0
        commit = self._commit_before if in_last_write and not trust_last_write else state.commit
        state = HardState(state.term, state.vote, min(commit, last))
        return SavedState(state, self._snapshot, tuple(self._entries))
