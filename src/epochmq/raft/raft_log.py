"""The log of one node in memory: which entries are stable, committed and applied.

applied <= commit <= last and applied <= stable <= last. An entry is given to the state machine only
when it is committed and stable on this node, so an applied entry still exists after a crash.
"""

from collections import deque
from collections.abc import Sequence

from epochmq.base.errors import check
from epochmq.raft.raft_messages import LogEntry, Snapshot, VotersAndLearners


class RaftLog:
    """A snapshot and the entries after it."""

    def __init__(
        self, snapshot: Snapshot, entries: Sequence[LogEntry] = (), commit: int = 0
    ) -> None:
        self.snapshot = snapshot
        """The state before the first entry; index 0 in a new group."""
        self._entries = list(entries)
        self.stable = self.last_index
        self.applied = snapshot.index
        self.commit = max(snapshot.index, min(commit, self.last_index))
        self._handed = self.last_index
        self._writes: deque[int] = deque()
        """The last index of each running write; a truncation lowers them."""

    @property
    def last_index(self) -> int:
        """Index of the last entry, or of the snapshot."""
        return self.snapshot.index + len(self._entries)

    @property
    def last_term(self) -> int:
        """Term of the last entry, or of the snapshot."""
        return self._entries[-1].term if self._entries else self.snapshot.term

    def term_at(self, index: int) -> int | None:
        """Return the term of the entry at `index`; None if the entry is not here."""
        at = index - self.snapshot.index - 1
        if 0 <= at < len(self._entries):
            return self._entries[at].term
        return self.snapshot.term if at == -1 else None

    def is_fresh(self, last_index: int, last_term: int) -> bool:
        """Whether a log with this end holds everything that this log may have committed (5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def after(self, index: int, bytes_max: int, count_max: int) -> tuple[LogEntry, ...]:
        """Return entries from `index` + 1 on; at least one if there is any."""
        start = index - self.snapshot.index
        check(start >= 0, "INV-02 entries before the snapshot were asked for")
        size = 0
        taken: list[LogEntry] = []
        for entry in self._entries[start : start + count_max]:
            size += len(entry.data) + 16
            if taken and size > bytes_max:
                break
            taken.append(entry)
        return tuple(taken)

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Add entries that follow the last one, or replace entries from the first of them on."""
        first = entries[0].index
        if first <= self.last_index:
            self._cut(first)
        check(first == self.last_index + 1, "INV-02 entries have no gap")
        self._entries.extend(entries)

    def _cut(self, first: int) -> None:
        """Remove entry `first` and all after it."""
        check(first > self.commit, "INV-03 a committed entry is never cut (dledger#316)")
        del self._entries[first - self.snapshot.index - 1 :]
        self.stable = min(self.stable, first - 1)
        self._handed = min(self._handed, first - 1)
        self._writes = deque(min(last, first - 1) for last in self._writes)

    def merge(
        self, prev_index: int, prev_term: int, entries: Sequence[LogEntry]
    ) -> tuple[LogEntry, ...]:
        """Add entries that a leader sent, after a position where both logs agree.

        Entries that are here already stay, so a late append removes nothing (5.3).

        Returns:
            The entries that are new.
        """
        check(self.term_at(prev_index) == prev_term, "INV-02 merged where the logs agree")
        for at, entry in enumerate(entries):
            if self.term_at(entry.index) != entry.term:
                new = tuple(entries[at:])
                self.append(new)
                return new
        return ()

    def agreement(self, index: int, term: int) -> tuple[int, int]:
        """Return the last (index, term) up to `index` that a log with `term` there may share."""
        index = min(index, self.last_index)
        if index < self.snapshot.index:
            return index, 0
        while index > self.snapshot.index:
            own = self.term_at(index)
            if own is not None and own <= term:
                return index, own
            index -= 1
        return self.snapshot.index, self.snapshot.term

    def commit_to(self, index: int) -> bool:
        """Raise the commit index. Return whether it changed."""
        check(index <= self.last_index, "INV-05 commit <= last (dledger#316)")
        if index <= self.commit:
            return False
        self.commit = index
        return True

    @property
    def entries(self) -> list[LogEntry]:
        """A copy of all entries after the snapshot."""
        return list(self._entries)

    # Writing and applying ---------------------------------------------------------------------

    @property
    def has_unwritten(self) -> bool:
        """Whether entries wait to be written."""
        return self._handed < self.last_index

    def pop_unwritten(self) -> tuple[LogEntry, ...]:
        """Return entries to write; `written` makes them stable, in the same order."""
        new = tuple(self._entries[self._handed - self.snapshot.index :])
        self._handed = self.last_index
        self._writes.append(self.last_index)
        return new

    def written(self) -> None:
        """Note that the oldest running write is on the device."""
        self.stable = max(self.stable, self._writes.popleft())

    @property
    def applicable(self) -> int:
        """The last index that may be applied now."""
        return min(self.commit, self.stable)

    def pop_committed(self, count_max: int) -> tuple[LogEntry, ...]:
        """Return at most `count_max` entries to apply; they count as applied."""
        start = self.applied - self.snapshot.index
        stop = min(self.applicable - self.snapshot.index, start + count_max)
        entries = tuple(self._entries[start:stop]) if stop > start else ()
        self.applied += len(entries)
        return entries

    def found(self, members: VotersAndLearners) -> None:
        """Set the first members of a new group; entries may be here already."""
        check(self.snapshot.index == 0, "INV-02 a group is founded before its first entry")
        self.snapshot = Snapshot(0, 0, members)

    # Snapshots --------------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a leader's snapshot."""
        check(snapshot.index > self.commit, "INV-05 a snapshot never goes back")
        self.snapshot = snapshot
        self._entries.clear()
        self._writes = deque(0 for _ in self._writes)
        self.commit = self.stable = self.applied = self._handed = snapshot.index

    def compact(self, index: int, members: VotersAndLearners, data: bytes) -> Snapshot:
        """Replace all entries up to `index` by the state machine's `data`."""
        check(
            self.snapshot.index < index <= self.applied, "INV-04 only what was applied is compacted"
        )
        term = self.term_at(index)
        assert term is not None
        del self._entries[: index - self.snapshot.index]
        self.snapshot = Snapshot(index, term, members, data)
        return self.snapshot
