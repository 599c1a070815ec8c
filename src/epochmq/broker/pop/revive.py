"""POP revive core: the open check points of one revive queue, which are due, and the progress.

The revive queue is read in order. A check point stays open until each of its messages is
acknowledged or written to the retry topic. Acknowledgements always lie behind their check point.
`progress` is the first record that is still needed; earlier records may be forgotten. It moves past
a check point only when no message of it is open. So after a crash the open check points are read
again: a delivery may be repeated, but no message is lost (INV-28).

- Invisible times are measured on the monotonic clock. For check points that this broker made in its
  present role the time runs from the pop; for others it runs from the moment when the record is
  read, and never longer than requested. A step of the wall clock does not change them
  (rocketmq#7914 lost messages in such a step).
- A check point that stays open for long would hold `progress` back. So it is written again at the
  end of the queue with its known acknowledgements (`copy`). When the copy is read, it replaces the
  original if it contains all that is known by then; otherwise another copy is made.
- A copy may lie behind acknowledgements that it does not contain, and it must not reopen their
  messages. So a check point stays, and holds `progress`, until its copy is read. For a copy that
  contains less than is known, `progress` either stays at the original or moves past the copy.
- Copies that an earlier process wrote are not expected. Until everything that lay in the queue at
  the start (up to `end`) is read, `progress` stays, and acknowledgements of check points that are
  not open are remembered.

The module is pure. Inputs are records, `now` (monotonic ms) and `wall` (wall ms); outputs are the
check points to deliver.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Sequence
from enum import Enum, auto

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import check
from epochmq.broker.pop.pop_records import CheckPoint, Key, with_done

RETRY_MS, RETRY_MAX_MS = 1_000, 10_000
"""First and longest pause (ms) after the internal writer refused a delivery for now; each further
pause is doubled."""

BACK_OFF_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Pauses (s) while a message cannot be read or written at all, as in RocketMQ."""

COPY_BEHIND = 20_000
"""Number of records behind an open check point after which it is copied."""

REMEMBERED_MAX = 100_000
"""Limit of the check points whose acknowledgements are remembered while they are not open."""

DELIVERED_KEPT_MAX = 10_000
"""Limit of the finished check points whose deliveries are remembered."""

COPY_LEFT_MS = 5_000
"""A check point that is due within this time (ms) is not copied: it will be finished soon."""


class MessageState(Enum):
    """State of one message of a check point."""

    UNKNOWN = auto()
    """The check point is not open here: it is finished, not read yet, or never existed."""
    FOREIGN = auto()
    """The check point does not contain the message."""
    OPEN = auto()
    ACKED = auto()
    DELIVERED = auto()
    """The message is in the retry topic, or is being written to it."""


class OpenCheckPoint:
    """An open check point. Its bit maps have one bit for each message, the lowest for the first."""

    __slots__ = (
        "acked",
        "busy",
        "check_point",
        "copy",
        "delivered",
        "due_ms",
        "failures",
        "first_place",
        "full",
        "last_place",
        "offsets",
        "place",
    )

    def __init__(self, check_point: CheckPoint, place: int, due_ms: int) -> None:
        self.check_point = check_point
        self.offsets = check_point.offsets()
        self.place = self.first_place = self.last_place = place
        """Revive queue offsets: of the newest copy, and of the first and the last pop that this
        entry represents."""
        self.due_ms = due_ms
        self.full = (1 << len(self.offsets)) - 1
        self.acked = check_point.done & self.full
        self.delivered = 0
        self.busy = False
        self.copy: CheckPoint | None = None
        """The copy that is being written, or is written and not read yet."""
        self.failures = 0

    @property
    def done(self) -> int:
        return self.acked | self.delivered

    @property
    def finished(self) -> bool:
        return self.done == self.full

    @property
    def is_wide(self) -> bool:
        """Whether this entry joins several check points, none of which names all its messages."""
        return len(self.offsets) > len(self.check_point.offsets())

    def open_messages(self) -> list[tuple[int, int]]:
        """Return (bit number, queue offset) of each message that is not finished."""
        done = self.done
        return [(bit, at) for bit, at in enumerate(self.offsets) if not done >> bit & 1]


class Revive:
    """The state of one revive queue.

    `position` is the queue offset of the next record to read; `end` is the end of the queue at the
    start.
    """

    def __init__(self, position: int = 0, end: int = 0) -> None:
        self.position = position
        self._start, self._end = position, end
        self._done_before: dict[Key, tuple[int, set[int]]] = {}
        self._stale: list[tuple[int, int]] = []
        self._kept: dict[Key, set[int]] = {}
        """Acknowledgements that are written but not read, of check points that are not read yet."""
        self._entries: dict[Key, OpenCheckPoint] = {}
        self._past: OrderedDict[Key, OpenCheckPoint] = OrderedDict()
        """The newest check points that ended with a delivery. An acknowledgement of a delivered
        message is too late, whatever the wall clock says."""
        self._places: deque[tuple[int, OpenCheckPoint]] = deque()
        self._lost: deque[tuple[int, OpenCheckPoint, CheckPoint]] = deque()
        self._due: list[tuple[int, int, OpenCheckPoint]] = []
        self._number = 0
        self._orphans = 0
        self._revived = 0

    def __len__(self) -> int:
        return len(self._entries)

    def open_check_points(self) -> list[OpenCheckPoint]:
        """Return the check points that are open now."""
        return list(self._entries.values())

    # What is read ----------------------------------------------------------------------------

    def add_check_point(
        self, found: CheckPoint, place: int, now: int, wall: int, until_ms: int | None = None
    ) -> None:
        """Add a check point, or a copy of one, that was read at queue offset `place`.

        `until_ms` (monotonic) is the end of the invisible time if it is known; otherwise it is
        calculated from the record and `wall`.
        """
        entry = self._entries.get(found.key)
        if until_ms is None:
            left = min(max(found.due_wall_ms - wall, 0), max(found.invisible_time, 0))
            until_ms = now + left
        if entry is None:
            self._open(found, place, until_ms)
            return
        if found.offsets() != entry.offsets:
            self._widen(entry, found, place, until_ms)
            return
        known = entry.done
        entry.acked |= found.done & entry.full
        entry.copy = None
        if known & ~found.done == 0:
            entry.place = place
            self._places.append((place, entry))
        else:
            self._stale.append((entry.first_place, place))
        self._look(entry)

    def add_pending_ack(self, key: Key, offsets: Sequence[int]) -> None:
        """Apply an acknowledgement that is in the log but not read yet.

        The log becomes readable piece by piece, so the check point may be read and become due
        before the acknowledgement is readable.
        """
        if key in self._entries:
            self.add_acks(key, offsets)
        elif key in self._kept or len(self._kept) < REMEMBERED_MAX:
            self._kept.setdefault(key, set()).update(offsets)

    def add_acks(self, key: Key, offsets: Sequence[int]) -> None:
        """Apply an acknowledgement that was read from the queue, or that exists only in memory."""
        self._kept.pop(key, None)
        entry = self._entries.get(key)
        if entry is None:
            self._orphans += 1
            self._remember(key, self.position, offsets)
            return
        for offset in offsets:
            if offset in entry.offsets:
                entry.acked |= 1 << entry.offsets.index(offset)
        self._look(entry)

    def seen(self, key: Key, offset: int) -> MessageState:
        """Return the state of the message at queue offset `offset`, from all records before
        `position`."""
        entry = self._entries.get(key) or self._past.get(key)
        if entry is None:
            return MessageState.ACKED if offset in self._kept.get(key, ()) else MessageState.UNKNOWN
        if offset not in entry.offsets:
            return MessageState.FOREIGN
        bit = 1 << entry.offsets.index(offset)
        if entry.delivered & bit:
            return MessageState.DELIVERED
        if entry.acked & bit:
            return MessageState.ACKED
        return MessageState.DELIVERED if entry.busy else MessageState.OPEN

    # What is due -----------------------------------------------------------------------------

    def check_point(self, key: Key) -> CheckPoint | None:
        """Return the open check point with that key; None if none is open."""
        entry = self._entries.get(key)
        return None if entry is None else entry.check_point

    def due(self, now: int, most: int) -> list[OpenCheckPoint]:
        """Return up to `most` check points whose invisible time is over.

        Each stays busy until `delivered` or `failed` is called for it.
        """
        found: list[OpenCheckPoint] = []
        while self._due and self._due[0][0] <= now and len(found) < most:
            due_ms, _, entry = heapq.heappop(self._due)
            if self._is_planned(due_ms, entry):
                entry.busy = True
                found.append(entry)
        return found

    def delivered(self, entry: OpenCheckPoint, bits: int) -> None:
        """Note that the messages in `bits` are in the retry topic, or are gone."""
        check(entry.busy, "revive: only what was due is delivered")
        entry.delivered |= bits & ~entry.acked
        entry.busy = False
        entry.failures = 0
        self._revived += bits.bit_count()
        if not self._look(entry):
            self._plan(entry)

    def failed(self, entry: OpenCheckPoint, bits: int, now: int, *, hard: bool) -> None:
        """Note that only the messages in `bits` were delivered, and plan a retry of the others.

        The pause is longer after a `hard` failure (see `BACK_OFF_S`).
        """
        entry.delivered |= bits & ~entry.acked
        entry.busy = False
        self._revived += bits.bit_count()
        if self._look(entry):
            return
        if hard:
            pause = BACK_OFF_S[min(entry.failures, len(BACK_OFF_S) - 1)] * 1000
        else:
            pause = backoff_ms(entry.failures, RETRY_MS, RETRY_MAX_MS)
        entry.failures += 1
        entry.due_ms = max(entry.due_ms, now + pause)
        self._plan(entry)

    def copy(self, now: int) -> CheckPoint | None:
        """Return the check point to write again at the end of the queue; None if none is needed."""
        self._give_up_copies()
        self._sweep()
        if self._has_old_copies or not self._places:
            return None
        entry = self._places[0][1]
        stays = entry.due_ms > now + COPY_LEFT_MS
        behind = self.position - entry.place > COPY_BEHIND
        stops = entry.busy or entry.copy is not None or entry.is_wide
        if not (stays and behind) or stops:
            return None
        entry.copy = with_done(entry.check_point, entry.done)
        return entry.copy

    def copy_failed(self, copy: CheckPoint, end: int) -> None:
        """Note that writing `copy` failed or timed out; the queue ends at `end`.

        The copy may still be in the queue before `end`. The check point stays until all records
        before `end` are read, because the copy would reopen it. A copy that was read already is
        ignored here.
        """
        entry = self._entries.get(copy.key)
        if entry is not None and entry.copy is copy:
            self._lost.append((end, entry, copy))

    def _give_up_copies(self) -> None:
        """Give up failed copies that were not found in the queue; another copy may be made."""
        while self._lost and self._lost[0][0] <= self.position:
            _, entry, copy = self._lost.popleft()
            if entry.copy is copy:
                entry.copy = None
                self._look(entry)

    # How far ---------------------------------------------------------------------------------

    @property
    def progress(self) -> int:
        """The first record of the queue that is still needed."""
        if self._has_old_copies:
            return self._start
        self._done_before.clear()
        self._sweep()
        first = self._places[0][0] if self._places else self.position
        for known_from, copy_at in reversed(self._stale):
            if known_from < first <= copy_at:
                first = known_from
        while self._stale and self._stale[0][1] < first:
            del self._stale[0]
        return first

    def next_deadline(self) -> int | None:
        """Return when `due` has a check point next (monotonic ms); None if none is planned."""
        while self._due and not self._is_planned(self._due[0][0], self._due[0][2]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def statistics(self) -> dict[str, int]:
        return {
            "open": len(self._entries),
            "position": self.position,
            "progress": self.progress,
            "revived": self._revived,
            "orphans": self._orphans,
        }

    # Inside ----------------------------------------------------------------------------------

    @property
    def _has_old_copies(self) -> bool:
        """Whether copies that an earlier process wrote may still be unread."""
        return self.position < self._end

    def _open(self, found: CheckPoint, place: int, due_ms: int) -> None:
        entry = OpenCheckPoint(found, place, due_ms)
        known_from, done = self._done_before.get(found.key, (place, set()))
        known = sum(1 << bit for bit, at in enumerate(entry.offsets) if at in done)
        if known & ~entry.acked:
            self._stale.append((known_from, place))
            entry.acked |= known
            entry.first_place = entry.last_place = known_from
        kept = self._kept.get(found.key, ())
        entry.acked |= sum(1 << bit for bit, at in enumerate(entry.offsets) if at in kept)
        if not entry.finished:
            self._entries[found.key] = entry
            self._places.append((place, entry))
            self._plan(entry)

    def _widen(self, entry: OpenCheckPoint, found: CheckPoint, place: int, due_ms: int) -> None:
        """Join a second check point with the same key into the entry.

        Two pops have the same key if they have the same pop time and first message, for example
        after a crash with a clock that was set back. An acknowledgement applies to both, and their
        messages are delivered again together.
        """
        offsets = found.offsets()
        entry.offsets += [at for at in offsets if at not in entry.offsets]
        entry.full = (1 << len(entry.offsets)) - 1
        for bit, at in enumerate(offsets):
            entry.acked |= (found.done >> bit & 1) << entry.offsets.index(at)
        if offsets == entry.check_point.offsets():  # its copy, from before it was widened
            entry.copy = None
            self._stale.append((entry.first_place, place))
        else:
            entry.last_place = place
            entry.due_ms = max(entry.due_ms, due_ms)
        if not self._look(entry) and not entry.busy:
            self._plan(entry)

    def _remember(self, key: Key, place: int, offsets: Sequence[int]) -> None:
        """Remember the finished messages of a check point that is not open.

        Beyond `REMEMBERED_MAX`, an old copy may cause a repeated delivery.
        """
        if self._has_old_copies and len(self._done_before) < REMEMBERED_MAX:
            _, done = self._done_before.setdefault(key, (place, set()))
            done.update(offsets)

    def _look(self, entry: OpenCheckPoint) -> bool:
        """Remove the check point if it is finished and no copy is pending.

        Returns whether it is finished.
        """
        if entry.finished and entry.copy is None:
            self._entries.pop(entry.check_point.key, None)
            self._note_past(entry)
            if self.position - entry.first_place > COPY_BEHIND:
                done = [at for bit, at in enumerate(entry.offsets) if entry.done >> bit & 1]
                self._remember(entry.check_point.key, entry.first_place, done)
        return entry.finished

    def _note_past(self, entry: OpenCheckPoint) -> None:
        if entry.delivered:
            self._past[entry.check_point.key] = entry
            if len(self._past) > DELIVERED_KEPT_MAX:
                self._past.popitem(last=False)

    def _plan(self, entry: OpenCheckPoint) -> None:
        self._number += 1
        heapq.heappush(self._due, (entry.due_ms, self._number, entry))
        if len(self._due) > 2 * len(self._entries) + 64:
            self._due = [plan for plan in self._due if self._is_planned(plan[0], plan[2])]
            heapq.heapify(self._due)

    def _is_planned(self, due_ms: int, entry: OpenCheckPoint) -> bool:
        return not entry.finished and not entry.busy and entry.due_ms == due_ms

    def _sweep(self) -> None:
        places = self._places
        while places and self._is_over(*places[0]):
            places.popleft()

    @staticmethod
    def _is_over(place: int, entry: OpenCheckPoint) -> bool:
        return (entry.finished and entry.copy is None) or entry.place != place
