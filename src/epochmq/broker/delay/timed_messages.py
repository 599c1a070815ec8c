"""Timer core: places timed messages on the timer wheel, and decides which are due for delivery.

This is the pure core of RocketMQ's TimerMessageStore. Time is divided into slots of `precision_ms`;
a message is placed in the slot that contains its deliver time, the upper end included. `read_ms` is
the slot that is being delivered. Each message of an open slot is delivered at its own time. The
slot is over when its time is over and the internal writer has acknowledged all its messages
(rocketmq#7927: a failed delivery is tried again and never skipped). Slots whose time is over are
opened together (`spans`): each put waits for replicas, and with one put for each slot the timer
could not catch up if replicas need longer than one slot.

The progress on the disk and at replicas is the pair (`done_ms`, `covered`): of the messages before
queue offset `covered`, all with a time up to `done_ms` are delivered. The pair moves only when no
put is in flight, and it stays before the time of any late message that still waits. The time of a
message follows from the message alone (its deliver time, or, if that is too far away, a time based
on its store time), so every replica places it in the same slot. A message before `covered` whose
time is done is skipped; a message behind `covered` whose time is done is late, and is placed in the
open slot. When the wall clock goes back, that slot is in the future again, later than the times of
its late messages; until the slot is reached, `covered` does not move. The earlier pair remains
valid, so it is kept, saved and copied as an older pair. A pair of another broker that is ahead in
only one of the two values is kept in the same way.

The module is pure: inputs are wall times (ms), queue offsets and timer log positions. The driver
enqueues with `place` and `enqueued`, opens the slot that `wants` returns, puts what `batch` returns
and reports the outcomes with `batch_put`.
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
"""First pause (ms) after a failed delivery; it is doubled up to `RETRY_MAX_MS`."""
RETRY_MAX_MS = 5_000
BACK_MS = 2_000
"""If the wall clock goes back by more than this (ms), `read_ms` goes back too."""

SPAN_SLOTS = 64
"""Limit of the slots that are delivered together."""
SPAN_MS = 60_000
"""Longest time (ms) that such slots cover: a sort key (`_key`) has 16 bits for the time."""

_POSITION_BITS = 48
_POSITION_MASK = (1 << _POSITION_BITS) - 1
_LATEST = (1 << 16) - 1


class TimerPosition(NamedTuple):
    """Place of a message on the wheel: slot, magic bits of its unit, and time (wall ms)."""

    slot_ms: int
    magic: int
    deliver_wall_ms: int


class Put(NamedTuple):
    """State of the wheel when a batch was put."""

    cursor: int
    position: int
    """End of the timer log."""
    after: int | None
    """Sort key of the first message behind the batch; None if there is none."""


class Timer:
    """State and progress of one broker's timer; `position` values are timer log positions."""

    def __init__(self, precision_ms: int, window_slots: int) -> None:
        self.precision_ms = precision_ms
        self.window_ms = window_slots * precision_ms
        self.read_ms = 0
        self.done_ms = 0
        self.cursor = 0
        """Next queue offset of the timer topic to place on the wheel."""
        self.covered = 0
        self.position = 0
        """End of the timer log when the wheel held exactly the messages before `kept_cursor`."""
        self.kept_cursor = 0
        self.is_open = False
        self._span_ms = precision_ms
        """Time (ms) that the slots which are open together cover."""
        self._late_ms = 0
        """The last slot in which a late message was placed; 0 when that slot is over."""
        self.updates = 0
        """Counts changes of the state that must be saved."""
        self._due: array[int] = array("Q")
        self._at = 0
        self._flying: list[int] = []
        self._put: Put | None = None
        self._failures = 0
        self._retry_at = 0
        self._cancelled: set[tuple[int, str]] = set()
        """Cancelled messages as (slot, name)."""
        self._partly: tuple[int, int, int, int] | None = None
        """The slots that were partly delivered when the clock went back: their begin and end, the
        time up to which they were delivered, and the end of the timer log."""
        self._older: list[OlderProgress] = []
        """Pairs that are valid beside the present one, the latest time first: from before the clock
        went back, or from other brokers. `position` is the end of the units that were on the wheel
        then and are before `covered`."""

    # Progress --------------------------------------------------------------------------------

    def restore(
        self,
        done_ms: int,
        covered: int,
        cursor: int,
        position: int,
        older: Sequence[OlderProgress] = (),
    ) -> None:
        """Start from a checkpoint.

        `done_ms` and `covered` are the progress pair. The wheel holds the messages before queue
        offset `cursor`; the timer log ends at `position`. `older` are further valid pairs.
        """
        self._done(done_ms)
        self.covered = covered
        self.cursor = self.kept_cursor = min(cursor, covered)
        self.position = position
        self._older = list(older[-OLDER_MAX:])
        self._cut_older()
        self._close()

    @property
    def older(self) -> list[OlderProgress]:
        """The older pairs that cover more than the present pair."""
        return [row for row in self._older if self._says_more(row)]

    def adopt_older(self, older: Sequence[OlderProgress]) -> None:
        """Take over older pairs of the master; its timer log positions are dropped.

        Messages of such a pair that are on this wheel already are recognized when their time comes
        (`was_done`).
        """
        for told in older:
            rows = [row for row in self._older if self._says_more(row)]
            if self._says_more(told) and not any(_includes(row, told) for row in rows):
                rows = [row for row in rows if not _includes(told, row)]
                rows.append(told._replace(position=-1))
                self._older = sorted(rows, key=_time_of, reverse=True)[-OLDER_MAX:]
                self.updates += 1

    def keep_older(self, holds: Callable[[OlderProgress], bool]) -> bool:
        """Keep the older pairs whose deliveries are all still in the log (`holds`).

        Call it before this broker delivers. Returns False if a pair was dropped: then the wheel
        must be rebuilt, because messages of that pair were left out.
        """
        kept = [row for row in self._older if holds(row)]
        is_whole = len(kept) == len(self._older)
        self._older = kept
        return is_whole

    def start_delivery(self, wall: int, end: int) -> bool:
        """Start to deliver; the timer topic ends at queue offset `end`.

        Returns False if the wheel holds messages that the topic does not have, because the log was
        cut: then the wheel must be rebuilt (rocketmq#7480).
        """
        if self.read_ms == 0:  # no progress is known: all messages with a past time are late
            self._done(self._aligned(wall))
        self.covered = min(self.covered, end)
        self._older = [row._replace(covered=min(row.covered, end)) for row in self._older]
        return self.cursor <= end

    def fall_back(self) -> int:
        """Stop delivering and return to the saved state; return where to cut the timer log.

        The commit log may be cut and continue with other records: see `keep_older`.
        """
        self.cursor = self.kept_cursor
        self._cut_older()
        self.unskip()
        self._partly = None
        self._late_ms = 0
        self._close()
        return self.position

    def begin_again(self, first: int, position: int) -> None:
        """Restart with an empty wheel: place all messages again from queue offset `first` on."""
        self.cursor = self.kept_cursor = min(first, self.covered)
        self.position = position
        self._older = [row._replace(position=-1) for row in self._older]
        self._late_ms = 0
        self._partly = None
        self.updates += 1
        self._close()

    def adopt(self, done_ms: int, covered: int, log_end: int = 0, epoch: int = -1) -> None:
        """Take over the progress pair of the master; an older pair changes nothing.

        If the pair is ahead in only one of its two values, it is kept as an older pair. The own
        commit log ends at `log_end`; the byte before it was written in `epoch`.
        """
        if done_ms >= self.done_ms and covered >= self.covered:
            self._done(done_ms)
            self.covered = covered
        else:
            self.adopt_older([OlderProgress(done_ms, covered, -1, log_end, epoch)])

    def is_behind(self, wall: int) -> bool:
        """Return whether the wall clock went back by more than `BACK_MS`; see `set_back`."""
        return self.read_ms > wall + BACK_MS

    def set_back(self, wall: int, log_end: int = 0, epoch: int = -1) -> None:
        """Follow a wall clock that went back, and keep the present pair as an older one.

        Before this call, delivered slots must be emptied and no put may be in flight. A timer that
        `has_skipped` must call `unskip`, because times before `wall` then count as delivered.

        The commit log ends at `log_end`; the byte before it was written in `epoch`.
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
        """Continue with the slot of `wall`, on an empty wheel (`begin_again`).

        Past messages that were not delivered are placed there as late messages. `done_ms` stays,
        so that delivered messages are still recognized.

        Until that slot is delivered, the state of the wheel is not saved. Before a role change, or
        when the clock goes back, `unskip` undoes the skip.
        """
        self.read_ms = self._aligned(wall)

    @property
    def has_skipped(self) -> bool:
        """Whether the open slot may hold undelivered messages from skipped slots (`skip_to`)."""
        return self.read_ms > self.done_ms

    def unskip(self) -> None:
        """Return to the slot of `done_ms`; late messages must then be placed again."""
        self.read_ms = self._aligned(self.done_ms)

    # Enqueue ---------------------------------------------------------------------------------

    @property
    def catching_up(self) -> bool:
        """Whether messages before `covered` are not on the wheel yet."""
        return self.cursor < self.covered

    def slot_of(self, deliver_wall_ms: int) -> int:
        """Return the slot (wall ms) of a deliver time, as in TIMER_OUT_MS.

        The time is aligned down; an exact multiple of the precision belongs to the slot before.
        """
        return self._aligned(deliver_wall_ms - 1)

    def place(
        self, offset: int, deliver_wall_ms: int, store_wall_ms: int, *, delete: bool = False
    ) -> TimerPosition | None:
        """Return the place for the message at queue offset `offset`; None if it was delivered.

        `delete` is True for a cancellation. A time beyond the window gets the ROLL bit.
        """
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
        """Return when a message is delivered, or when it is rolled (wall ms).

        The result follows from the message alone, so it is the same at every replica.
        """
        delay, window = deliver_wall_ms - store_wall_ms, self.window_ms
        if delay < window:
            return deliver_wall_ms
        # the last piece must leave time for one more roll
        return store_wall_ms + (window // 2 if delay < window * 4 // 3 else window)

    def was_done(self, offset: int, deliver_wall_ms: int) -> bool:
        """Return whether an older pair says that the message at queue offset `offset` is delivered.

        The pair may have arrived when the message was on the wheel already.
        """
        return any(deliver_wall_ms <= row.done_ms and offset < row.covered for row in self._older)

    def may_be_done(self, deliver_wall_ms: int) -> bool:
        """Return whether `was_done` must be checked for messages of that time."""
        return any(deliver_wall_ms <= row.done_ms for row in self._older)

    def farthest(self, magic: int) -> TimerPosition:
        """Return the farthest usable place, for a message whose slot the wheel does not reach.

        Such a message was stored while the clock was far ahead. When its slot is over, the message
        is placed on the wheel again; it is not put into the timer topic again, because a rebuilt
        wheel could not know that. The timer cannot wait until the wheel reaches the slot: that
        would stop all later messages, and slots wait for all messages before `covered`. The place
        lies behind all open slots, otherwise the message would be placed again for ever.
        """
        deliver_wall_ms = self.over_ms - self.precision_ms + self.window_ms
        return TimerPosition(self.slot_of(deliver_wall_ms), magic | ROLL, deliver_wall_ms)

    def enqueued(self, next_offset: int, position: int) -> None:
        """Note that the wheel holds all messages before `next_offset`.

        The timer log ends at `position`.
        """
        self.cursor = next_offset
        if next_offset <= self.covered and not self.has_skipped:
            self.kept_cursor, self.position = next_offset, position
            self.updates += 1

    def joined(self, slot_ms: int, deliver_wall_ms: int, position: int) -> bool:
        """Note that a message was placed on the wheel; return whether its slot is open."""
        if deliver_wall_ms <= slot_ms:
            self._late_ms = max(self._late_ms, slot_ms)
        if not self.is_open or not self.read_ms <= slot_ms < self.over_ms:
            return False
        insort(self._due, self._key(deliver_wall_ms, position), self._at)
        return True

    # Deliver ---------------------------------------------------------------------------------

    @property
    def over_ms(self) -> int:
        """When the slots that are open together are over (wall ms)."""
        return self.read_ms + self._span_ms

    def wants(self, wall: int) -> int | None:
        """Return the slot to open now; None if a slot is open or its time has not come."""
        if self.is_open or self.catching_up or self.read_ms > wall:
            return None
        return self.read_ms

    def spans(self, slot_ms: int, wall: int) -> bool:
        """Return whether slot `slot_ms` may be opened together with the earlier due slots.

        The time of `slot_ms` must be over. Slots that were partly delivered before the clock went
        back are not opened together with others (see `key_of`).
        """
        end_ms = slot_ms + self.precision_ms
        if self._partly is not None and slot_ms in self._partly[:2]:
            return False
        length_ms = min(SPAN_SLOTS * self.precision_ms, SPAN_MS)
        return end_ms <= wall and end_ms - self.read_ms <= length_ms

    def key_of(self, deliver_wall_ms: int, position: int, rolls: bool) -> int | None:
        """Return the sort key of a unit in the slot to open; None if the unit is delivered.

        After a start the slot may be partly delivered; the units that were in it then are done. An
        older pair may also say that a unit is done. This does not apply to a unit that `rolls`,
        because its time may depend on the position of this wheel (`farthest`).
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
        """Open `slots` slots, beginning with the one that `wants` returned.

        `keys` are the sort keys of all their units, in order.
        """
        self.is_open = True
        self._span_ms = slots * self.precision_ms
        if self._partly is not None and self._partly[1] == self.over_ms:
            self._partly = None
        self._due = keys
        self._at = 0

    def cancel(self, key: str, deliver_wall_ms: int) -> None:
        """Cancel the messages with this name in the open slot of that time (TIMER_DEL_UNIQKEY)."""
        self._cancelled.add((self._open_slot(deliver_wall_ms), key))

    @property
    def cancels(self) -> bool:
        """Whether the open slots have any cancellation."""
        return bool(self._cancelled)

    def is_cancelled(self, keys: Iterable[str], deliver_wall_ms: int) -> bool:
        slot_ms = self._open_slot(deliver_wall_ms)
        return any((slot_ms, key) in self._cancelled for key in keys)

    def _open_slot(self, deliver_wall_ms: int) -> int:
        return max(self.slot_of(deliver_wall_ms), self.read_ms)

    @property
    def size(self) -> int:
        """Number of messages of the open slots, including those that were put already."""
        return len(self._due)

    def batch(self, wall: int, count_max: int) -> list[int]:
        """Return the timer log positions of up to `count_max` units to put now.

        Call `batch_put` with the outcomes before the next batch.
        """
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
        """Return whether removing the last `count` of the batch splits messages of the same time.

        A progress between them would not cover the earlier one, so it would be delivered again
        after a change of master (INV-27).
        """
        at = self._at - count
        if not 0 < count < len(self._flying):
            return False
        return self._due[at - 1] >> _POSITION_BITS == self._due[at] >> _POSITION_BITS

    def put_back(self, count: int) -> None:
        """Remove the last `count` units from the batch; a later batch contains them again."""
        if count:
            del self._flying[-count:]
            self._at -= count

    def withdraw(self) -> None:
        """Remove all units from the batch; nothing is put now."""
        self.put_back(len(self._flying))

    def put_begins(self, position: int) -> None:
        """Note that the batch is put now; `position` is the end of the timer log.

        Messages that are placed before the outcome arrives count with the next batch.
        """
        self._put = Put(self.cursor, position, self._order_of_next())

    def batch_put(self, held: Sequence[bool], wall: int, position: int) -> None:
        """Report the outcomes of the batch; messages that are not `held` are put again later.

        `position` is the end of the timer log.
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
        """Close the open slots if they are over and delivered; return whether they were.

        `position` is the end of the timer log.
        """
        over = self.over_ms
        if not self.is_open or self._flying or self._at < len(self._due) or wall < over:
            return False
        if self._due or self.cursor != self.covered:  # an idle wheel writes nothing
            self.updates += 1
        self._cover(self.cursor, position)
        if not self.waits_for_late:
            self._late_ms = 0  # otherwise it would be in the future when the clock goes back
        self._done(over)
        self._close()
        return True

    def _note(self, wall: int, now: Put, put: Put | None) -> None:
        """Move the progress up to the next waiting message, since all puts are stored.

        If a message joined after the put that is due before the message that was next then, the
        state at the put is used. Otherwise the delivered messages would not count, and would be
        delivered again after a change of master.
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
        """Return the sort key of the next waiting message in the open slots; None if none waits."""
        return self._due[self._at] if self._at < len(self._due) else None

    def _cover(self, cursor: int, position: int) -> None:
        """Move `covered` to `cursor`, unless late messages wait in a slot after their times."""
        if not self.waits_for_late:
            self.covered = self.kept_cursor = cursor
            self.position = position

    @property
    def waits_for_late(self) -> bool:
        """Whether late messages wait in a future slot; `covered` does not move until then."""
        return self._late_ms >= self.over_ms

    # Deadlines and helpers -------------------------------------------------------------------

    def next_deadline(self, wall: int) -> int | None:
        """Return the wall time (ms) of the next work; None while a result is awaited."""
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
        """Whether a batch is in flight: it was put, and its outcome is not known yet."""
        return bool(self._flying)

    def _pause_ends(self, wall: int) -> int:
        """Return when the pause after a failure is over; at once if the clock went back."""
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
        """Limit the positions of older pairs to `position`: the timer log is cut there."""
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
