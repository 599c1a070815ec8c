"""The epoch file: which master epoch wrote which bytes of the log (RIP-44, INV-14).

It also finds the offset up to which two logs are equal (`consistent_point`).

File `epochFileCheckpoint`, text: the number of entries, a CRC-32 without its
sign bit over the entry lines, and one line `epoch-startOffset` per entry. Ends are not stored: an
epoch ends where the next one starts.

Rules in addition to RocketMQ's:
- An epoch may start at the same offset as the one before it. The older one is then empty, and both
  are kept, so that a Java follower that knows only the older one still finds a consistent point
  (H1, H2, rocketmq#9942).
- Ends are derived after each change (H4). Entries beyond the log's end are dropped at open (H5,
  H6). If the list becomes empty, the file is removed instead of left with old entries (H5).
- A file that is read from its `.bak` may lack the newest entry: beyond the start of its last entry,
  only confirmed bytes are trusted (H15).
"""

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from epochmq.base.errors import PeerError
from epochmq.base.limits import EPOCHS_KEPT_MAX, EPOCHS_SENT_MAX
from epochmq.base.ports import Disk
from epochmq.model.crc import crc32

_log = logging.getLogger(__name__)

FILE = "epochFileCheckpoint"
OPEN_END = (1 << 63) - 1
"""End of the last epoch (Java's Long.MAX_VALUE)."""


class StaleEpoch(PeerError):
    """An epoch that is not above the last one, or starts before it: its master was replaced."""


class EpochEntry(NamedTuple):
    """The master of `epoch` wrote the bytes `[start, end)` of the log."""

    epoch: int
    start: int
    end: int = OPEN_END


def with_ends(entries: Sequence[tuple[int, ...]], end: int = OPEN_END) -> list[EpochEntry]:
    """Return the entries in order with their ends; the last one ends at `end`."""
    if not entries:
        return []
    made = [EpochEntry(a[0], a[1], b[1]) for a, b in pairwise(entries)]
    return [*made, EpochEntry(entries[-1][0], entries[-1][1], end)]


def epoch_before(entries: Sequence[tuple[int, ...]], offset: int) -> int:
    """Return the epoch that wrote the byte before `offset`; -1 if no entry covers it."""
    return next((entry[0] for entry in reversed(entries) if entry[1] < offset), -1)


def consistent_point(
    own: Sequence[tuple[int, ...]],
    own_end: int,
    master: Sequence[tuple[int, ...]],
    master_end: int,
) -> int | None:
    """Return the offset up to which both logs hold the same bytes; None if it cannot be decided.

    If None, an operator must decide. The newest own epoch that the master knows with the same start
    decides; the smaller of its two ends is the point (RIP-44, "Election Truncation Algorithm").
    """
    theirs = {entry.epoch: entry for entry in with_ends(master, master_end)}
    for mine in reversed(with_ends(own, own_end)):
        known = theirs.get(mine.epoch)
        if known is None or known.start != mine.start:
            continue
        if mine.end >= mine.start and known.end >= known.start:
            return min(mine.end, known.end)
    if not master:
        return None
    if not own:
        # A store from before controller mode: upgrading demands logs of one length (seed 002).
        return own_end if own_end == master[0][1] else None
    point = _before_own(own[0], with_ends(master, master_end))
    return None if point is None else min(point, own_end)


def _before_own(first: tuple[int, ...], master: list[EpochEntry]) -> int | None:
    """Return the consistent point if the logs have no epoch in common.

    Older masters wrote the bytes before the first own epoch.
    """
    older = [entry for entry in master if entry.epoch < first[0]]
    if older:
        return min(first[1], older[-1].end)  # KIP-279
    return first[1] if first[1] == master[0].start else None


class EpochFile:
    """The epoch entries of one store; each change is durable when the call returns, except
    `forget_suffix`.
    """

    def __init__(self, disk: Disk, path: str = FILE) -> None:
        self._disk = disk
        self.path = path
        self.entries: list[EpochEntry] = []
        """Ordered by epoch. If empty although the log has data, treat the replica as an empty
        one.
        """
        self.doubtful_from: int | None = None
        """Set if the backup was read: entries that start behind this offset may be missing."""
        self._unsaved = False
        """Whether the file still has entries that `forget_suffix` dropped."""
        self._load()

    def _load(self) -> None:
        for path in (self.path, self.path + ".bak"):
            data = self._disk.read_file(path)
            entries = None if data is None else _parse(data)
            if entries is None:
                if data is not None:
                    _log.error("%s cannot be read, its checksum or shape is wrong", path)
                continue
            self.entries = with_ends(entries)
            if path != self.path:
                self.doubtful_from = entries[-1][1]
                _log.error(
                    "%s is used instead of %s; epochs from offset %d on may be missing",
                    path,
                    self.path,
                    self.doubtful_from,
                )
            return

    @property
    def last_epoch(self) -> int:
        """Epoch of the last entry, -1 if there is none (as in handshakes)."""
        return self.entries[-1].epoch if self.entries else -1

    def append(self, epoch: int, start: int) -> None:
        """Add an epoch that begins at `start`, durably, before its first byte is written.

        Repeating the last entry changes nothing. Raises `StaleEpoch` if the epoch cannot follow the
        last one.
        """
        last = self.entries[-1] if self.entries else None
        if last is not None:
            if (epoch, start) == last[:2]:
                return
            if epoch <= last.epoch or start < last.start:
                raise StaleEpoch(
                    f"epoch {epoch} from {start} cannot follow {last.epoch} from {last.start}"
                )
        if epoch < 0 or start < 0:
            raise StaleEpoch(f"epoch {epoch} from {start} makes no sense")
        self._save([*self.entries, EpochEntry(epoch, start)])

    def forget_suffix(self, offset: int) -> None:
        """Drop in memory the epochs that start at or behind `offset`; the caller saves soon.

        The log already ends at `offset`, so these epochs must not be reported to others. A crash
        before the file is written does no harm: `reconcile` drops them at the next start.
        """
        kept = [entry for entry in self.entries if entry.start < offset]
        if len(kept) < len(self.entries):
            self.entries, self._unsaved = with_ends(kept), True

    def cut_suffix(self, offset: int) -> None:
        """Drop the epochs that start at or behind `offset`, to which the log was cut."""
        self._keep([entry for entry in self.entries if entry.start < offset])
        if self.doubtful_from is not None and offset <= self.doubtful_from:
            self.doubtful_from = None

    def cut_prefix(self, log_start: int) -> None:
        """Drop the epochs that end before `log_start` after retention; the last epoch is kept."""
        ended = [entry for entry in self.entries[:-1] if entry.end < log_start]
        self._keep(self.entries[len(ended) :])

    def reconcile(self, log_start: int, log_end: int) -> None:
        """Drop the entries that are outside the log, when the store opens (H5, H6)."""
        self._keep([entry for entry in self.entries if entry.start <= log_end])
        self.cut_prefix(log_start)

    def adopt(self, master: Sequence[tuple[int, ...]], point: int) -> None:
        """Take over the master's epochs below `point`, empty ones too (S07): both logs agree
        there.
        """
        theirs = [EpochEntry(entry[0], entry[1]) for entry in master if entry[1] < point]
        if not theirs:
            self.cut_suffix(point)
            return
        first = theirs[0]
        older = [e for e in self.entries if e.epoch < first.epoch and e.start <= first.start]
        self._keep([*older, *theirs])
        self.doubtful_from = None

    def entry_at(self, offset: int) -> EpochEntry | None:
        """Return the epoch of byte `offset`, written or next to be written; None before the first.

        Bytes before the first epoch are those that retention removed, or that a broker without a
        controller wrote: Java 5.3.3 begins the first epoch at that log's end, replication may make
        these bytes an epoch 0.
        """
        for entry in reversed(self.entries):
            if entry.start <= offset:
                return entry
        return None

    def consistent_point(
        self,
        own_end: int,
        master_entries: Sequence[tuple[int, ...]],
        master_end: int,
        confirmed: int = 0,
    ) -> int | None:
        """Return the offset to which the own log must be cut; see the function of this name.

        Below the own `confirmed` offset all replicas agree, even if the own entries are in doubt.
        """
        point = consistent_point(self.entries, own_end, master_entries, master_end)
        if point is not None and self.doubtful_from is not None:
            return min(point, max(self.doubtful_from, confirmed))
        return point

    def newest(self, limit: int = EPOCHS_SENT_MAX) -> list[EpochEntry]:
        """Return the entries for a handshake: empty epochs are left out first, then the oldest."""
        entries = self.entries
        if len(entries) > limit:
            entries = [e for e in entries if e.end > e.start]
        return entries[-limit:]

    def _keep(self, entries: Sequence[EpochEntry]) -> None:
        if self._unsaved or [e[:2] for e in entries] != [e[:2] for e in self.entries]:
            self._save(entries)

    def _save(self, entries: Sequence[EpochEntry]) -> None:
        """Write the file, then change the entries in memory: an error leaves both unchanged."""
        entries = entries[-EPOCHS_KEPT_MAX:]
        if entries:
            self._disk.write_file(self.path, _format(entries), backup=True)
        else:
            for path in (self.path + ".bak", self.path):
                self._disk.remove(path)
            self._disk.sync_dir(self.path.rpartition("/")[0])
        self.entries, self._unsaved = with_ends(entries), False


def _format(entries: Sequence[tuple[int, ...]]) -> bytes:
    lines = "".join(f"{entry[0]}-{entry[1]}\n" for entry in entries).encode()
    return b"%d\n%d\n%s" % (len(entries), crc32(lines), lines)


def _parse(data: bytes) -> list[tuple[int, int]] | None:
    """Parse the file's text; return None if it is empty, damaged or out of order."""
    head, _, rest = data.partition(b"\n")
    crc, _, lines = rest.partition(b"\n")
    try:
        count, expected = int(head), int(crc)
        pairs = [line.split(b"-") for line in lines.split()]
        entries = [(int(epoch), int(start)) for epoch, start in pairs]
    except ValueError:
        return None
    if count != len(entries) or not entries or expected not in (0, crc32(lines)):
        return None
    rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
    return entries if rising and entries[0][1] >= 0 else None
