"""Which check points of one revive queue are open, what of them is due, how far the queue is done.

The queue is read in its order: check points are kept until each of their messages is acknowledged
or has been put into the retry topic; acknowledgements lie behind their check points. `progress` is
the first record that is still needed: everything before it may be forgotten. It moves past a check
point only when nothing of it is open, so a crash reads the open ones again and repeats a delivery
rather than lose a message (INV-28).

- Invisible times are measured on the monotonic clock: of what this broker handed out in its present
  role from the pop on, of other check points from the moment they are read, never longer than they
  were asked for. A step of the wall clock neither hurries nor delays them (rocketmq#7914 lost
  messages over a step).
- A check point that stays open for long while others pass it would hold `progress` back. It is
  written again at the queue's end, with what is known of it (`copy`); the copy takes its place when
  it is read and knows as much as is known then, else another copy is made.
- A copy may lie behind acknowledgements that it does not know of, and must not open anew what they
  ended. So a check point stays, and holds `progress`, until its copy is read; a copy that knows
  less than is known holds `progress` where it is, or lets it pass the copy. Copies that a former
  life wrote come by surprise: until everything is read that lay in the queue at the start (`end`),
  `progress` stays, and what was acknowledged of check points that are not open is remembered.

Pure: records and `now` (monotonic ms), `wall` ms come in; check points to deliver come out.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import check
from epochmq.broker.pop.pop_records import CheckPoint, Key, with_done

RETRY_MS, RETRY_MAX_MS = 1_000, 10_000
"""Pauses after a delivery that the internal writer refused for now: doubled from the first to the
last."""

BACK_OFF_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Pauses while a message cannot be read or written at all, as in RocketMQ."""

COPY_BEHIND = 20_000
"""Records that may lie behind an open check point before it is copied."""

REMEMBERED_MAX = 100_000
"""Check points of which it is remembered what was acknowledged while they were not open."""

DELIVERED_KEPT_MAX = 10_000
"""Check points that are done of which it is remembered what was handed out again."""

COPY_LEFT_MS = 5_000
"""What is due sooner than this is not copied: it is done soon by itself."""


class MessageState(Enum):
    """What is known of one message of a check point."""

    UNKNOWN = auto()
    """The check point is not open here: done with, not read yet, or never given out."""
    FOREIGN = auto()
    """The check point has no such message."""
    OPEN = auto()
    ACKED = auto()
    DELIVERED = auto()
    """It is, or is just being, put into the retry topic."""


class OpenCheckPoint:
    """An open check point. Bits: one a message, the lowest for the first."""

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
        """Of its newest copy; of the first and the last pop that it stands for."""
        self.due_ms = due_ms
        self.full = (1 << len(self.offsets)) - 1
        self.acked = check_point.done & self.full
        self.delivered = 0
        self.busy = False
        self.copy: CheckPoint | None = None
        """The copy that is on the way into the log, or into our hands."""
        self.failures = 0

    @property
    def done(self) -> int:
        return self.acked | self.delivered

    @property
    def finished(self) -> bool:
        return self.done == self.full

    @property
    def is_wide(self) -> bool:
        """Whether it stands for several check points: none of them speaks of all its messages."""
        return len(self.offsets) > len(self.check_point.offsets())

    def open_messages(self) -> list[tuple[int, int]]:
        """(bit number, queue offset) of what nobody acknowledged."""
        done = self.done
        return [(bit, at) for bit, at in enumerate(self.offsets) if not done >> bit & 1]


class Revive:
    """One revive queue. `position` is the next record to read, `end` where new ones go."""

    def __init__(self, position: int = 0, end: int = 0) -> None:
        self.position = position
        self._start, self._end = position, end
        self._done_before: dict[Key, tuple[int, set[int]]] = {}
        self._stale: list[tuple[int, int]] = []
        self._kept: dict[Key, set[int]] = {}
        """Acknowledged, where the check point is not read yet, nor the acknowledgement."""
        self._entries: dict[Key, OpenCheckPoint] = {}
        self._past: dict[Key, OpenCheckPoint] = {}
        """The newest that ended with a delivery: an acknowledgement is too late for them, whatever
        the wall clock says by now."""
        self._places: deque[tuple[int, OpenCheckPoint]] = deque()
        self._lost: deque[tuple[int, OpenCheckPoint, CheckPoint]] = deque()
        self._due: list[tuple[int, int, OpenCheckPoint]] = []
        self._number = 0
        self._orphans = 0
        self._revived = 0

    def __len__(self) -> int:
        return len(self._entries)

    # What is read ----------------------------------------------------------------------------

    def add_check_point(
        self, found: CheckPoint, place: int, now: int, wall: int, until_ms: int | None = None
    ) -> None:
        """A check point, or the copy of one, was read at `place`; `until_ms` (monotonic) where it
        is known until when it hides its messages."""
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
        """An acknowledgement is kept, and will be read some time.

        A log becomes readable piece by piece: its check point may be read, and be due, before it.
        """
        if key in self._entries:
            self.add_acks(key, offsets)
        elif key in self._kept or len(self._kept) < REMEMBERED_MAX:
            self._kept.setdefault(key, set()).update(offsets)

    def add_acks(self, key: Key, offsets: Sequence[int]) -> None:
        """An acknowledgement was read, so its check point was; or it is known here alone."""
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
        """What is known of a message, by everything before `position`."""
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
        """The open check point of that key, if it was read."""
        entry = self._entries.get(key)
        return None if entry is None else entry.check_point

    def due(self, now: int, most: int) -> list[OpenCheckPoint]:
        """Up to `most` check points whose time is over; each stays out until it is reported."""
        found: list[OpenCheckPoint] = []
        while self._due and self._due[0][0] <= now and len(found) < most:
            due_ms, _, entry = heapq.heappop(self._due)
            if self._is_planned(due_ms, entry):
                entry.busy = True
                found.append(entry)
        return found

    def delivered(self, entry: OpenCheckPoint, bits: int) -> None:
        """The internal writer keeps these messages in the retry topic, or there is nothing to
        deliver."""
        check(entry.busy, "revive: only what was due is delivered")
        entry.delivered |= bits & ~entry.acked
        entry.busy = False
        entry.failures = 0
        self._revived += bits.bit_count()
        if not self._look(entry):
            self._plan(entry)

    def failed(self, entry: OpenCheckPoint, bits: int, now: int, *, hard: bool) -> None:
        """Only `bits` were kept; the others again, much later when it is a `hard` failure."""
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
        """The check point to write again at the queue's end, with what is known of it."""
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
        """The copy was not held in time. It may be in the queue all the same, before `end`: until
        that is read the check point stays, else the copy would open it again. It may have been
        read already, and another one be on the way.
        """
        entry = self._entries.get(copy.key)
        if entry is not None and entry.copy is copy:
            self._lost.append((end, entry, copy))

    def _give_up_copies(self) -> None:
        """Those that were not found where they should be: another one, some time."""
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
        """When `due` answers something (monotonic); may be early, never late."""
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
        """Whether copies may lie ahead that a former life wrote."""
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
        """Another pop had the same key: of the same millisecond and from the same message on, as
        after a crash by a clock that was set back. What acknowledges the one acknowledges the
        other; their messages come back together.
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
        """What is done of a check point that is not open; beyond the limit a copy repeats it."""
        if self._has_old_copies and len(self._done_before) < REMEMBERED_MAX:
            _, done = self._done_before.setdefault(key, (place, set()))
            done.update(offsets)

    def _look(self, entry: OpenCheckPoint) -> bool:
        """Forget the check point when nothing of it is open; whether that is so."""
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
                del self._past[next(iter(self._past))]

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
