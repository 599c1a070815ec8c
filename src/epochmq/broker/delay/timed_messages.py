"""What of the timer topic is on the wheel, what is due, and how far everything is delivered.

Time is cut into slots of `precision_ms`; a message hangs in the slot that holds its time, its upper
end included. `read_ms` is the slot that is being delivered. Messages of an
open slot go out each at its own time; the slot is over when its time is and the internal writer has
acknowledged all of them (rocketmq#7927: what fails is tried again and never skipped). Slots whose
time is over are opened together (`spans`): each put waits for replicas, and one put for each slot
would never catch up where those take longer than a slot.

What survives, on the disk and at a replica, is the pair (`done_ms`, `covered`): of the messages
before queue offset `covered` those with a time up to `done_ms` are delivered. It is taken only
when nothing is under way, and stays before the time of any that came late and still waits. That
time follows from the message alone (its own, or, too far away, its store time): every replica
hangs it into the same slot. A message before `covered` whose time is done is skipped; one behind
it is late and hangs in the open slot. When the clock goes back that slot lies ahead again, after
the times of its late ones: until it is reached, `covered` stays where it is. The pair of before
still holds for what it speaks of: it is kept, saved and copied as an older one. So is the pair of
another broker that goes further than ours in one of its two only: both hold.

Pure: wall time, offsets and positions come in. The shell enqueues by `place` and `enqueued`, opens
the slot that `wants` names, puts what `batch` gives and reports it by `settled`.
"""

from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import check
from epochmq.store.timer.timer_checkpoint import OLDER_MAX, OlderProgress
from epochmq.store.timer.wheel import DEFAULT, DELETE, ROLL

RETRY_MS = 200
"""First pause after a failed delivery; doubles up to `RETRY_MAX_MS`."""
RETRY_MAX_MS = 5_000
BACK_MS = 2_000
"""A wall clock that goes back by more than this takes `read_ms` with it."""

SPAN_SLOTS = 64
"""Slots that are delivered together at most."""
SPAN_MS = 60_000
"""What they cover at most: an order (`_key`) tells 65,535 ms apart."""

_POSITION_BITS = 48
_POSITION_MASK = (1 << _POSITION_BITS) - 1
_LATEST = (1 << 16) - 1


class TimerPosition(NamedTuple):
    """Where a message hangs: its slot, why (bits of the unit's magic), not before when."""

    slot_ms: int
    magic: int
    deliver_wall_ms: int


class Put(NamedTuple):
    """What hung when a batch was put."""

    cursor: int
    position: int
    """End of the timer log."""
    after: int | None
    """Order of the first that waits behind the batch."""


class Timer:
    """Progress of one broker's timer; positions are those of the timer log."""

    def __init__(self, precision_ms: int, window_slots: int) -> None:
        self.precision_ms = precision_ms
        self.window_ms = window_slots * precision_ms
        self.read_ms = 0
        self.done_ms = 0
        self.cursor = 0
        """Next queue offset of the timer topic to hang up."""
        self.covered = 0
        self.position = 0
        """End of the timer log when the wheel held exactly what is before `kept_cursor`."""
        self.kept_cursor = 0
        self.is_open = False
        self._span_ms = precision_ms
        """What the open slot covers, with those that were opened with it."""
        self._late_ms = 0
        """The last slot that a late message was hung into; 0 when that slot is over."""
        self.updates = 0
        """Counts moves of what must be saved."""
        self._due: array[int] = array("Q")
        self._at = 0
        self._flying: list[int] = []
        self._put: Put | None = None
        self._failures = 0
        self._retry_at = 0
        self._cancelled: set[tuple[int, str]] = set()
        """By slot."""
        self._partly: tuple[int, int, int, int] | None = None
        """What was delivered in part when the clock went back: where those slots began and ended,
        how far, and where the timer log ended."""
        self._older: list[OlderProgress] = []
        """Pairs that hold beside the one of now, the latest time first: of before the clock went
        back, and of others; `position` is the end of what hung then and is before `covered`."""

    # Progress --------------------------------------------------------------------------------

    def restore(
        self,
        done_ms: int,
        covered: int,
        cursor: int,
        position: int,
        older: Sequence[OlderProgress] = (),
    ) -> None:
        """Begin from a checkpoint: up to `cursor` everything is on the wheel."""
        self._done(done_ms)
        self.covered = covered
        self.cursor = self.kept_cursor = min(cursor, covered)
        self.position = position
        self._older = list(older[-OLDER_MAX:])
        self._cut_older()
        self._close()

    @property
    def older(self) -> list[OlderProgress]:
        """Those of the other pairs that say more than the one of now."""
        return [row for row in self._older if self._says_more(row)]

    def adopt_older(self, older: Sequence[OlderProgress]) -> None:
        """What the master has delivered before its clock went back; positions are its own. What of
        that hangs here already is found out when its time comes (`was_done`)."""
        for told in older:
            rows = [row for row in self._older if self._says_more(row)]
            if self._says_more(told) and not any(_includes(row, told) for row in rows):
                rows = [row for row in rows if not _includes(told, row)]
                rows.append(told._replace(position=-1))
                self._older = sorted(rows, key=_time_of, reverse=True)[-OLDER_MAX:]
                self.updates += 1

    def keep_older(self, holds: Callable[[OlderProgress], bool]) -> bool:
        """Keep those of whose deliveries the log still has all, before this broker delivers; False
        when one goes: what it left out has to be hung up."""
        kept = [row for row in self._older if holds(row)]
        is_whole = len(kept) == len(self._older)
        self._older = kept
        return is_whole

    def start_delivery(self, wall: int, end: int) -> bool:
        """Deliver from now on; the timer topic ends at queue offset `end`. False when the wheel
        holds what the topic has not (its log was cut): it must be made anew (rocketmq#7480).
        """
        if self.read_ms == 0:  # nobody ever said how far it was: all that is past is late
            self._done(self._aligned(wall))
        self.covered = min(self.covered, end)
        self._older = [row._replace(covered=min(row.covered, end)) for row in self._older]
        return self.cursor <= end

    def fall_back(self) -> int:
        """This broker delivers no longer: back to what is kept; where to cut the timer log.

        The log may be cut and go on otherwise: see `keep_older`.
        """
        self.cursor = self.kept_cursor
        self._cut_older()
        self.unskip()
        self._partly = None
        self._late_ms = 0
        self._close()
        return self.position

    def begin_again(self, first: int, position: int) -> None:
        """The wheel is empty: hang everything up again from queue offset `first` on."""
        self.cursor = self.kept_cursor = min(first, self.covered)
        self.position = position
        self._older = [row._replace(position=-1) for row in self._older]
        self._late_ms = 0
        self._partly = None
        self.updates += 1
        self._close()

    def adopt(self, done_ms: int, covered: int, log_end: int = 0, epoch: int = -1) -> None:
        """What the master has delivered; an older word changes nothing.

        A pair of a later time that covers less, or the other way round, is kept beside ours. The
        own commit log ends at `log_end`; the byte before it is of `epoch`.
        """
        if done_ms >= self.done_ms and covered >= self.covered:
            self._done(done_ms)
            self.covered = covered
        else:
            self.adopt_older([OlderProgress(done_ms, covered, -1, log_end, epoch)])

    def is_behind(self, wall: int) -> bool:
        """Whether the wall clock went back so far that messages would wait for its return."""
        return self.read_ms > wall + BACK_MS

    def set_back(self, wall: int, log_end: int = 0, epoch: int = -1) -> None:
        """Follow the clock; slots that are delivered must have been emptied, puts been settled,
        and who `has_skipped` gone back (`unskip`): what is before `wall` would count as delivered.

        The commit log ends at `log_end`; the byte before it is of `epoch`.
        """
        check(not self.has_skipped, "timer: what hangs late is taken out before the clock counts")
        if self.is_open and self.done_ms >= self.read_ms:
            self._partly = self.read_ms, self.over_ms, self.done_ms, self.position
        older = [row for row in self._older if self._says_more(row)]
        now = OlderProgress(self.done_ms, self.covered, self.position, log_end, epoch)
        self._older = sorted([*older, now], key=_time_of, reverse=True)[-OLDER_MAX:]
        self._done(self._aligned(wall))
        self._failures = self._retry_at = 0  # a pause until a time of the old clock
        self._close()
        self.updates += 1

    def skip_to(self, wall: int) -> None:
        """Go on with the slot of now, on an empty wheel (`begin_again`): what is past and was not
        delivered hangs there, late. `done_ms` stays, which tells the two apart.

        Until that slot is delivered the wheel is nobody else's: of what hangs there nothing is
        kept, and before another role, or a clock that goes back, it is taken out (`unskip`).
        """
        self.read_ms = self._aligned(wall)

    @property
    def has_skipped(self) -> bool:
        """Whether what was due before the open slot hangs in it, and may not be delivered."""
        return self.read_ms > self.done_ms

    def unskip(self) -> None:
        """Go on where everything is delivered up to: what hangs late has to be hung up anew."""
        self.read_ms = self._aligned(self.done_ms)

    # Enqueue ---------------------------------------------------------------------------------

    @property
    def catching_up(self) -> bool:
        """Whether the wheel still lacks what a checkpoint or the master speaks of."""
        return self.cursor < self.covered

    def slot_of(self, deliver_wall_ms: int) -> int:
        """TIMER_OUT_MS: aligned down, and an exact multiple to the one before."""
        return self._aligned(deliver_wall_ms - 1)

    def place(
        self, offset: int, deliver_wall_ms: int, store_wall_ms: int, *, delete: bool = False
    ) -> TimerPosition | None:
        """Where the message at queue offset `offset` hangs; None when it was delivered before."""
        magic = DEFAULT | (DELETE if delete else 0)
        if deliver_wall_ms - store_wall_ms >= self.window_ms:
            magic |= ROLL
            deliver_wall_ms = self.time_of(deliver_wall_ms, store_wall_ms)
        if deliver_wall_ms <= self.done_ms and offset < self.covered:
            return None
        if self._older and self.was_done(offset, deliver_wall_ms):
            return None
        slot_ms = max(self.slot_of(deliver_wall_ms), self.read_ms)
        return TimerPosition(slot_ms, magic, deliver_wall_ms)

    def time_of(self, deliver_wall_ms: int, store_wall_ms: int) -> int:
        """When a message goes out, or a piece of its wait is over: follows from the message."""
        delay, window = deliver_wall_ms - store_wall_ms, self.window_ms
        if delay < window:
            return deliver_wall_ms
        # the last piece must leave time for one more roll
        return store_wall_ms + (window // 2 if delay < window * 4 // 3 else window)

    def was_done(self, offset: int, deliver_wall_ms: int) -> bool:
        """Whether another pair than that of now says so of the message at queue offset `offset`;
        what it says may have come when the message hung already."""
        return any(deliver_wall_ms <= row.done_ms and offset < row.covered for row in self._older)

    def may_be_done(self, deliver_wall_ms: int) -> bool:
        """Whether `was_done` has to be asked about any message of that time."""
        return any(deliver_wall_ms <= row.done_ms for row in self._older)

    def farthest(self, magic: int) -> TimerPosition:
        """For a message whose time the wheel does not reach: a clock was far ahead at its store.

        When that slot's time is over, the message is hung up again (and not put once more, which
        a wheel made anew could not know). Waiting for slots to pass would stop all that is behind
        it, and slots wait for all that a checkpoint speaks of. It is behind all that is open: there
        it would be hung up again for ever.
        """
        deliver_wall_ms = self.over_ms - self.precision_ms + self.window_ms
        return TimerPosition(self.slot_of(deliver_wall_ms), magic | ROLL, deliver_wall_ms)

    def enqueued(self, next_offset: int, position: int) -> None:
        """Everything before `next_offset` hangs on the wheel; the timer log ends at `position`."""
        self.cursor = next_offset
        if next_offset <= self.covered and not self.has_skipped:
            self.kept_cursor, self.position = next_offset, position
            self.updates += 1

    def joined(self, slot_ms: int, deliver_wall_ms: int, position: int) -> bool:
        """A message was hung up; whether that was in the open slot."""
        if deliver_wall_ms <= slot_ms:
            self._late_ms = max(self._late_ms, slot_ms)
        if not self.is_open or not self.read_ms <= slot_ms < self.over_ms:
            return False
        insort(self._due, self._key(deliver_wall_ms, position), self._at)
        return True

    # Deliver ---------------------------------------------------------------------------------

    @property
    def over_ms(self) -> int:
        """When the open slot, and those that were opened with it, are over."""
        return self.read_ms + self._span_ms

    def wants(self, wall: int) -> int | None:
        """The slot to open now."""
        if self.is_open or self.catching_up or self.read_ms > wall:
            return None
        return self.read_ms

    def spans(self, slot_ms: int, wall: int) -> bool:
        """Whether the slot of `slot_ms` may be opened with all between `wants` and it: its time is
        over. Of slots delivered in part before a clock went back others are kept apart (`key_of`).
        """
        end_ms = slot_ms + self.precision_ms
        if self._partly is not None and slot_ms in self._partly[:2]:
            return False
        length_ms = min(SPAN_SLOTS * self.precision_ms, SPAN_MS)
        return end_ms <= wall and end_ms - self.read_ms <= length_ms

    def key_of(self, deliver_wall_ms: int, position: int, rolls: bool) -> int | None:
        """Where a unit of the slot `wants` named comes in its order; None for one that is done.

        After a start it may be a slot that is delivered in part: what hung there then is done. So
        is what a master whose clock was ahead said to be, if the time is the message's own: that of
        one that `rolls` may follow from where this wheel stood (`farthest`).
        """
        done, before = self.done_ms, self.position
        if self._partly is not None and self._partly[0] <= self.read_ms < self._partly[1]:
            _, _, done, before = self._partly
        if deliver_wall_ms <= done and position < before:
            return None
        if self._older and not rolls and self._had_gone(deliver_wall_ms, position):
            return None
        return self._key(deliver_wall_ms, position)

    def _had_gone(self, deliver_wall_ms: int, position: int) -> bool:
        return any(
            deliver_wall_ms <= row.done_ms and position < row.position for row in self._older
        )

    def opened(self, keys: "array[int]", slots: int = 1) -> None:
        """The slot `wants` named, and those after it that it `spans`, hold these, in order."""
        self.is_open = True
        self._span_ms = slots * self.precision_ms
        if self._partly is not None and self._partly[1] == self.over_ms:
            self._partly = None
        self._due = keys
        self._at = 0

    def cancel(self, key: str, deliver_wall_ms: int) -> None:
        """Nothing of this key is delivered in the open slot of this time (TIMER_DEL_UNIQKEY)."""
        self._cancelled.add((self._open_slot(deliver_wall_ms), key))

    @property
    def cancels(self) -> bool:
        """Whether anything is cancelled in what is open."""
        return bool(self._cancelled)

    def is_cancelled(self, keys: Iterable[str], deliver_wall_ms: int) -> bool:
        slot_ms = self._open_slot(deliver_wall_ms)
        return any((slot_ms, key) in self._cancelled for key in keys)

    def _open_slot(self, deliver_wall_ms: int) -> int:
        return max(self.slot_of(deliver_wall_ms), self.read_ms)

    @property
    def size(self) -> int:
        """Messages that what is open has, or had."""
        return len(self._due)

    def batch(self, wall: int, count_max: int) -> list[int]:
        """Positions of what is to be put now; report them by `batch_put` before the next."""
        if not self.is_open or self._flying or wall < self._pause_ends(wall):
            return []
        due, at = self._due, self._at
        stop = min(at + count_max, len(due))
        latest = (wall - self.read_ms + 1) << _POSITION_BITS
        while at < stop and due[at] < latest:
            at += 1
        self._flying = due[self._at : at].tolist()
        self._at = at
        return [key & _POSITION_MASK for key in self._flying]

    def splits(self, count: int) -> bool:
        """Whether the last `count` of the batch go at the time of the one before them: a progress
        in between says nothing of that one, which would come again after a hand-over (INV-27)."""
        at = self._at - count
        if not 0 < count < len(self._flying):
            return False
        return self._due[at - 1] >> _POSITION_BITS == self._due[at] >> _POSITION_BITS

    def put_back(self, count: int) -> None:
        """The last `count` of the batch are not put this time."""
        if count:
            del self._flying[-count:]
            self._at -= count

    def withdraw(self) -> None:
        """Nothing of the batch is put this time."""
        self.put_back(len(self._flying))

    def put_begins(self, position: int) -> None:
        """The batch is put now; `position` is the timer log's end. Whatever is hung up before its
        outcome is reported counts with the next batch.
        """
        self._put = Put(self.cursor, position, self._order_of_next())

    def batch_put(self, held: Sequence[bool], wall: int, position: int) -> None:
        """What became of the batch: what is not held comes again, a little later.

        `position` is the timer log's end.
        """
        check(len(held) == len(self._flying), "timer: an outcome for each message put")
        again = [key for key, ok in zip(self._flying, held, strict=True) if not ok]
        self._flying = []
        put, self._put = self._put, None
        if not again:
            self._failures = self._retry_at = 0
            self._note(wall, Put(self.cursor, position, self._order_of_next()), put)
            return
        due, at = self._due, self._at  # some may have joined meanwhile that go before them
        stop = bisect_right(due, again[-1], at)
        self._due = array("Q", sorted(again + due[at:stop].tolist())) + due[stop:]
        self._at = 0
        self._retry_at = wall + backoff_ms(self._failures, RETRY_MS, RETRY_MAX_MS)
        self._failures += 1

    def advance(self, wall: int, position: int) -> bool:
        """Go on behind what is open if that is over; `position` is the timer log's end."""
        over = self.over_ms
        if not self.is_open or self._flying or self._at < len(self._due) or wall < over:
            return False
        if self._due or self.cursor != self.covered:  # an idle wheel writes nothing
            self.updates += 1
        self._cover(self.cursor, position)
        if not self.waits_for_late:
            self._late_ms = 0  # else it would lie ahead again when the clock goes back
        self._done(over)
        self._close()
        return True

    def _note(self, wall: int, now: Put, put: Put | None) -> None:
        """All is held that was put: what is done now, up to the next one that waits.

        Where one joined since the put that goes before the next one of then, the pair is that of
        the put: what was delivered would not count otherwise, and come again after a hand-over.
        """
        if put is not None and now.after is not None:
            if put.after is None or now.after < put.after:
                now = put
        done = min(wall, self.over_ms - 1)
        if now.after is not None:
            done = min(done, self.read_ms + (now.after >> _POSITION_BITS) - 1)
        if done >= max(self.done_ms, self.read_ms):
            self._cover(now.cursor, now.position)
            self.done_ms = done
            self.updates += 1

    def _order_of_next(self) -> int | None:
        """That of the next one that waits in what is open; None when nothing does."""
        return self._due[self._at] if self._at < len(self._due) else None

    def _cover(self, cursor: int, position: int) -> None:
        """All before `cursor` counts, but not while late ones wait in a slot after their times."""
        if not self.waits_for_late:
            self.covered = self.kept_cursor = cursor
            self.position = position

    @property
    def waits_for_late(self) -> bool:
        """Whether late ones wait in a slot after their times, and nothing new counts until then."""
        return self._late_ms >= self.over_ms

    # Beside ----------------------------------------------------------------------------------

    def next_deadline(self, wall: int) -> int | None:
        """Wall time of the next thing to do; None while something is waited for."""
        if self._flying or self.catching_up:
            return None
        if not self.is_open:
            return self.read_ms
        at = self.over_ms
        if self._at < len(self._due):
            at = self.read_ms + (self._due[self._at] >> _POSITION_BITS)
        return max(at, self._pause_ends(wall))

    @property
    def flying(self) -> bool:
        """Whether something was put and nobody knows yet what became of it."""
        return bool(self._flying)

    def _pause_ends(self, wall: int) -> int:
        """When the pause after a failure is over; one by a clock that went back is."""
        return self._retry_at if self._retry_at - wall <= RETRY_MAX_MS else wall

    def statistics(self) -> dict[str, int]:
        return {
            "read_ms": self.read_ms,
            "cursor": self.cursor,
            "covered": self.covered,
            "open": len(self._due) - self._at,
            "failures": self._failures,
        }

    def _says_more(self, row: OlderProgress) -> bool:
        is_ahead = row.done_ms > self.done_ms or row.covered > self.covered
        return is_ahead and row.covered > 0

    def _cut_older(self) -> None:
        """The timer log goes on otherwise from `position` on."""
        end = self.position
        self._older = [row._replace(position=min(row.position, end)) for row in self._older]

    def _done(self, wall: int) -> None:
        self.done_ms = wall
        self.read_ms = self._aligned(wall)

    def _aligned(self, wall: int) -> int:
        return wall // self.precision_ms * self.precision_ms

    def _key(self, deliver_wall_ms: int, position: int) -> int:
        after = max(0, min(deliver_wall_ms - self.read_ms, _LATEST))
        return after << _POSITION_BITS | position

    def _close(self) -> None:
        self.is_open = False
        self._span_ms = self.precision_ms
        self._due = array("Q")
        self._at = 0
        self._flying = []
        self._put = None
        self._cancelled.clear()


def _time_of(row: OlderProgress) -> int:
    return row.done_ms


def _includes(one: OlderProgress, other: OlderProgress) -> bool:
    return one.done_ms >= other.done_ms and one.covered >= other.covered
