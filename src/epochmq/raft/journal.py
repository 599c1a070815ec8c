"""The journal of one node: term, vote, entries and snapshot on a disk.

One file. Its first records are the snapshot and what was known when the file was made; then
everything new is added at the end, and an entry replaces all that had its index or a higher one.
It is replaced as a whole, by rename, when a snapshot makes it shorter.

`save` and `rewrite` only remember. `take` gives one blocking call that writes and syncs all that
was remembered so far (group commit) and may run in another thread; only one at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from epochmq.base.check import check
from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk, File, Lock
from epochmq.raft.journal_records import Kind, Scan, encode, size_of
from epochmq.raft.messages import Entry, HardState, Members, Snapshot
from epochmq.raft.ready import Ready, Saved

FILE = "journal"
LOCK = "lock"
CHUNK_BYTES = 1024 * 1024
"""The file grows in steps of this size, so that most syncs change no metadata."""

_encode = msgspec.msgpack.Encoder().encode


class _Birth(msgspec.Struct, frozen=True, array_like=True):
    """Body of the first record; the size is padded so that its length does not depend on it."""

    owner: str
    born_bytes: bytes


@dataclass
class _Batch:
    """What one write and one sync have to carry."""

    whole: Saved | None = None
    """The file is made anew with this first."""
    records: list[tuple[Kind, bytes]] = field(default_factory=list)


class Journal:
    """One node's journal in a directory of its own."""

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
        self._last = HardState()
        self._last_index = 0
        self.end = 0
        """Bytes used in the file, all of them on the device."""
        self.must_sync = False
        """Something is remembered that messages wait for."""

    def load(self, bootstrap: Members) -> Saved:
        """What the journal holds; a new one starts with the members `bootstrap`.

        `StoreDamaged` when it cannot be trusted, `StoreInUse` when another process has it.
        """
        self._make_folder()
        self._lock = self._disk.lock(f"{self._folder}/{LOCK}")
        data = self._disk.read_file(self._path)
        if data is None:
            saved, torn = Saved(HardState(), Snapshot(0, 0, bootstrap)), True
        else:
            saved, torn, self.end = self._replay(data)
            self._allocated = len(data)
        if torn:
            self._write_whole(_Batch(saved))
        else:
            self._file = self._disk.open(self._path)
        self._last = saved.hard_state
        self._last_index = saved.snapshot.index + len(saved.entries)
        return saved

    def _make_folder(self) -> None:
        """Make the directory and, as a journal in a lost one is lost, make it durable."""
        self._disk.make_dir(self._folder)
        parts = self._folder.split("/")
        for depth in range(len(parts)):
            self._disk.sync_dir("/".join(parts[:depth]))

    def close(self) -> None:
        """Let go of the file and the lock; what was not taken is lost."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    # Remembering ------------------------------------------------------------------------------

    def save(self, ready: Ready) -> None:
        """Remember what is new in a batch of the core."""
        if ready.snapshot is not None:
            state = ready.hard_state or self._last
            self.rewrite(Saved(state, ready.snapshot))
        elif ready.hard_state is not None:
            self._check_promises(ready.hard_state)
            # The commit index comes before entries that may rely on it.
            self._add(Kind.HARD_STATE, _encode(ready.hard_state))
        for entry in ready.entries:
            check(entry.index <= self._last_index + 1, "INV-02 the journal has no gap")
            self._last_index = entry.index
            self._add(Kind.ENTRY, _encode(entry))
        self.must_sync = self.must_sync or ready.must_sync

    def rewrite(self, saved: Saved) -> None:
        """Remember that the file is to hold this, and what is saved later, and nothing else."""
        self._check_promises(saved.hard_state)
        self._batch = _Batch(saved)
        self.must_sync = True
        self._last_index = saved.snapshot.index + len(saved.entries)

    def _add(self, kind: Kind, body: bytes) -> None:
        self._batch.records.append((kind, body))

    def _check_promises(self, state: HardState) -> None:
        last = self._last
        check(state.term >= last.term, "INV-05 the term never goes back")
        check(state.commit >= last.commit, "INV-05 the commit index never goes back")
        self._last = state

    # Writing ----------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Something is remembered, urgent or not."""
        return bool(self._batch.records) or self._batch.whole is not None

    def take(self) -> Callable[[], None]:
        """The blocking call that puts everything remembered so far on the device.

        `SyncFailed`, `DiskFailed`, `DiskFull`: the node must stop; what is there is seen anew at
        the next start.
        """
        batch, self._batch = self._batch, _Batch()
        self.must_sync = False
        return lambda: self._write(batch)

    def sync(self) -> None:
        """Put everything remembered so far on the device, here and now."""
        self.take()()

    def _write(self, batch: _Batch) -> None:
        if batch.whole is not None:
            self._write_whole(batch)
            return
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
        """Make the file anew beside the old one and put it in its place."""
        saved = batch.whole
        assert saved is not None
        bodies = [
            (Kind.SNAPSHOT, _encode(saved.snapshot)),
            (Kind.HARD_STATE, _encode(saved.hard_state)),
            *((Kind.ENTRY, _encode(entry)) for entry in saved.entries),
            *batch.records,
        ]
        birth = _encode(_Birth(self._owner, bytes(8)))
        end = size_of(birth) + sum(size_of(body) for _kind, body in bodies)
        birth = _encode(_Birth(self._owner, end.to_bytes(8, "big")))
        records = [encode(kind, body, 0) for kind, body in [(Kind.BIRTH, birth), *bodies]]
        size = -(-end // self._chunk_bytes) * self._chunk_bytes
        if self._file is not None:
            self._file.close()
        self._disk.write_file(self._path, b"".join(records).ljust(size, b"\0"))
        self._file = self._disk.open(self._path)
        self._allocated, self.end = size, end

    # Reading ----------------------------------------------------------------------------------

    def _replay(self, data: bytes) -> tuple[Saved, bool, int]:
        """(what the file holds, whether its tail has to be cut, where the good part ends)"""
        scan = Scan(data, self._path)
        replay = _Replay(self._path)
        for kind, body in scan.records():
            try:
                if kind is Kind.BIRTH:
                    birth = msgspec.msgpack.decode(body, type=_Birth)
                    scan.born_bytes = int.from_bytes(birth.born_bytes, "big")
                    self._check_owner(birth.owner)
                else:
                    replay.take(kind, body)
            except msgspec.DecodeError as problem:
                raise StoreDamaged(f"{self._path}: a record makes no sense: {problem}") from None
        return replay.saved(), scan.torn, scan.end

    def _check_owner(self, owner: str) -> None:
        if owner and self._owner and owner != self._owner:
            raise StoreDamaged(
                f"{self._path} belongs to Raft node {owner}, this is {self._owner}: each node"
                " needs its own directory; check the configured paths and the node's name"
            )


class _Replay:
    """The state that a row of records leads to."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._hard_state = HardState()
        self._snapshot: Snapshot | None = None
        self._entries: list[Entry] = []

    def take(self, kind: Kind, body: bytes) -> None:
        if kind is Kind.HARD_STATE:
            self._hard_state = msgspec.msgpack.decode(body, type=HardState)
        elif kind is Kind.SNAPSHOT:
            self._snapshot = msgspec.msgpack.decode(body, type=Snapshot)
        else:
            self._take_entry(msgspec.msgpack.decode(body, type=Entry))

    def _take_entry(self, entry: Entry) -> None:
        first = 1 if self._snapshot is None else self._snapshot.index + 1
        at = entry.index - first
        if not 0 <= at <= len(self._entries):
            raise StoreDamaged(
                f"{self._name}: entry {entry.index} does not follow entry"
                f" {first + len(self._entries) - 1}; restore the file, or replace the node"
            )
        del self._entries[at:]
        self._entries.append(entry)

    def saved(self) -> Saved:
        if self._snapshot is None:
            raise StoreDamaged(f"{self._name} does not begin with a snapshot; restore the file")
        last = self._snapshot.index + len(self._entries)
        # The commit index is written before the entries it covers, and those may be torn off.
        state = self._hard_state
        state = HardState(state.term, state.vote, min(state.commit, last))
        return Saved(state, self._snapshot, tuple(self._entries))
