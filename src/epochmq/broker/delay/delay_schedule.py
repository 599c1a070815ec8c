"""How far each delay level is delivered, what is due, and when to look again.

Level n's messages are queue n-1 of SCHEDULE_TOPIC_XXXX; their consume-queue units carry the deliver
time (wall ms) as tagsCode, rising within a level. `progress` is the queue
offset of the next message to deliver. It moves only when the internal writer has acknowledged the
delivery, never on the attempt: a failed delivery is tried again and never skipped (rocketmq#9249),
and a crash in between delivers twice rather than not at all.

Pure: wall time comes in, looks to take come out. The shell reads a level's next units, hands their
deliver times to `found`, delivers as many as it says, and reports `delivered` or `failed`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import check
from epochmq.model.data_version import DataVersion
from epochmq.store.append import CLOCK_STEP_MS
from epochmq.wire import json_tolerant

AHEAD_MS = CLOCK_STEP_MS
"""Deliver times come from store times, which wait for a wall clock that went back by so much."""

AT_ONCE = 0
"""A wall time to look at that is past, also for a clock that is set back in between."""

RETRY_MS = 1000
"""First pause after a failed delivery; doubles up to `RETRY_MAX_MS`."""

RETRY_MAX_MS = 10_000


BATCH_FIRST, BATCH_MAX = 32, 256
"""Deliveries at once of a level: at first, and at most. Each full batch that is held doubles the
next; one that is refused quarters it: part of it may have been taken, and what is under way when
the role changes comes twice (INV-27)."""


class ReadUnits(NamedTuple):
    """Read up to `most` units of `level` from `queue_offset` on and report them by `found`."""

    level: int
    queue_offset: int
    most: int = BATCH_FIRST


class Level:
    """One level: its progress and when to look at it again (None: when something arrives)."""

    __slots__ = ("batch", "busy", "delay_ms", "failures", "look_at", "progress")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.progress = 0
        self.batch = BATCH_FIRST
        self.look_at: int | None = AT_ONCE
        self.busy = False
        self.failures = 0


def _is_time(level: Level, look_at: int, wall: int) -> bool:
    """A time further away than any that was ever set means that the clock went back."""
    furthest = max(level.delay_ms, RETRY_MAX_MS) if level.failures else level.delay_ms
    return look_at <= wall or look_at > wall + furthest + AHEAD_MS


class Schedule:
    """Progress of all levels; levels count from 1."""

    def __init__(self, delays_ms: Sequence[int], progress: Mapping[int, int] | None = None) -> None:
        self._levels = {number: Level(delay) for number, delay in enumerate(delays_ms, start=1)}
        self.restore(progress or {})
        self.updates = 0
        """Counts moves of progress; what is written to the file follows it."""

    @property
    def level_max(self) -> int:
        return len(self._levels)

    def progress(self) -> dict[int, int]:
        """Next queue offset to deliver by level."""
        return {number: level.progress for number, level in self._levels.items()}

    def restore(self, progress: Mapping[int, int]) -> None:
        """Take over a saved progress; levels it does not name start at the queue's beginning."""
        for number, level in self._levels.items():
            level.progress = max(0, progress.get(number, 0))

    def let_go(self) -> None:
        """Another role: nobody reports any more what became of deliveries under way."""
        for level in self._levels.values():
            level.busy = False

    def advance(self, progress: Mapping[int, int]) -> int:
        """Take what another broker has delivered further; how many levels that are."""
        ahead = [
            (level, progress[number])
            for number, level in self._levels.items()
            if progress.get(number, 0) > level.progress
        ]
        for level, offset in ahead:
            level.progress = offset
        self.updates += len(ahead)
        return len(ahead)

    def look_again(self) -> None:
        """Look at every level at the next occasion: another role, other progress."""
        for level in self._levels.values():
            level.look_at = AT_ONCE

    def level_for(self, wanted: int) -> int:
        """The level a message gets that asks for `wanted` (> 0): too high means the highest."""
        return min(wanted, self.level_max)

    def delay_ms(self, number: int) -> int:
        return self._levels[number].delay_ms

    def clamp(self, number: int, low: int, high: int) -> None:
        """Bring the progress into the queue's bounds, after a load or when retention cut it."""
        level = self._levels[number]
        progress = min(max(level.progress, low), high)
        if progress != level.progress:
            level.progress = progress
            self.updates += 1

    def looks(self, wall: int) -> list[ReadUnits]:
        """Levels to look at now; each stays out of the list until reported."""
        return [
            ReadUnits(number, level.progress, level.batch)
            for number, level in self._levels.items()
            if not level.busy and level.look_at is not None and _is_time(level, level.look_at, wall)
        ]

    def found(self, number: int, deliver_walls: Sequence[int], wall: int) -> int:
        """How many of the units read from the progress on are to be delivered now.

        A deliver time further away than the level's delay, and `AHEAD_MS`, means that the clock was
        set back, or that the levels were changed: such a message is due at once, as in RocketMQ.
        """
        level = self._levels[number]
        check(not level.busy, "schedule: one delivery at a time for a level")
        count = self.due(number, deliver_walls, wall)
        if count < len(deliver_walls):
            level.look_at = deliver_walls[count]
        else:
            level.look_at = AT_ONCE if deliver_walls else None
        level.busy = count > 0
        return count

    def due(self, number: int, deliver_walls: Sequence[int], wall: int) -> int:
        """As `found`, but only asked."""
        latest = wall + self._levels[number].delay_ms + AHEAD_MS
        for count, deliver_wall in enumerate(deliver_walls):
            if wall < deliver_wall <= latest:
                return count
        return len(deliver_walls)

    def delivered(self, number: int, next_offset: int) -> None:
        """The internal writer has acknowledged everything before `next_offset`."""
        level = self._levels[number]
        check(next_offset > level.progress, "schedule: progress only rises by a delivery")
        if next_offset - level.progress >= level.batch:
            level.batch = min(2 * level.batch, BATCH_MAX)
        level.progress = next_offset
        level.busy = False
        level.failures = 0
        self.updates += 1

    def failed(self, number: int, wall: int) -> None:
        """The delivery at the progress was refused: the same one again, a little later."""
        level = self._levels[number]
        level.batch = max(level.batch // 4, 1)
        level.busy = False
        level.look_at = wall + backoff_ms(level.failures, RETRY_MS, RETRY_MAX_MS)
        level.failures += 1

    def arrived(self, number: int) -> None:
        """The level has a new message; an idle level looks when it is due.

        Not a delay from now on: it may have come into the log long before replicas had it.
        """
        level = self._levels.get(number)
        if level is not None and level.look_at is None:
            level.look_at = AT_ONCE

    def next_deadline(self) -> int | None:
        """Earliest wall time at which `looks` answers something."""
        waiting = [
            level.look_at
            for level in self._levels.values()
            if level.look_at is not None and not level.busy
        ]
        return min(waiting, default=None)

    def statistics(self) -> dict[str, int]:
        return {
            "levels": len(self._levels),
            "busy": sum(level.busy for level in self._levels.values()),
            "failures": sum(level.failures for level in self._levels.values()),
        }


# Delay offsets -------------------------------------------------------------------------------
# config/delayOffset.json: how far each delay level is delivered.


class DelayOffsets:
    """The file's view of a `Schedule`; its version steps once in `version_step` deliveries."""

    file = "config/delayOffset.json"

    def __init__(self, schedule: Schedule, *, version_step: int = 200) -> None:
        self.schedule = schedule
        self.version_step = version_step
        self.version = DataVersion()
        self._saved = schedule.updates
        self._stepped = 0

    @property
    def dirty(self) -> bool:
        return self.schedule.updates != self._saved

    @dirty.setter
    def dirty(self, value: bool) -> None:
        self._saved = self.schedule.updates - int(value)

    def step_version(self, wall: int) -> None:
        """Called now and then; replicas compare the version before they copy the table."""
        steps = self.schedule.updates // self.version_step
        while self._stepped < steps:  # RocketMQ steps at the delivery itself, so as often as this
            self._stepped += 1
            self.version = self.version.next_version(wall)

    def content(self) -> dict[str, Any]:
        """The shape of the file and of GET_ALL_DELAY_OFFSET's body; levels count from 1."""
        return {"dataVersion": self.version, "offsetTable": self.schedule.progress()}

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def load(self, content: dict[str, Any]) -> None:
        """Take over the file's progress; the caller clamps it to the queues afterwards."""
        table, self.version = _read(content)
        self.schedule.restore(table)

    def follow(self, content: dict[str, Any]) -> None:
        """Take a master's table over; a level that is further here stays (INV-29)."""
        table, version = _read(content)
        self.version = max(version, self.version)
        self.schedule.advance(table)
        self.dirty = True

    def merge(self, content: dict[str, Any], wall: int) -> int:
        """Take from another replica the levels that it has delivered further; how many levels.

        The version steps past both; the caller clamps as after a load.
        """
        table, version = _read(content)
        self.version = max(version, self.version).next_version(wall)
        self.dirty = True
        return self.schedule.advance(table)


def _read(content: dict[str, Any]) -> tuple[dict[int, int], DataVersion]:
    table = msgspec.convert(content.get("offsetTable") or {}, dict[int, int], strict=False)
    version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
    return table, version
