"""Delay levels: the progress of each level, which messages are due, and when to read again.

This is the pure core of RocketMQ's ScheduleMessageService. The messages of level n are in queue n-1
of SCHEDULE_TOPIC_XXXX. Their consume queue units contain the deliver time (wall ms) as tagsCode,
rising within a level. `progress` is the queue offset of the next message to deliver. It moves only
when the internal writer has acknowledged the delivery. So a failed delivery is tried again and
never skipped (rocketmq#9249), and after a crash a message may be delivered twice, but is not lost.

The module is pure: inputs are wall times, outputs are the levels to read. The driver
(`delivery.py`) reads the next units of a level, passes their deliver times to `found`, delivers as
many as it returns, and reports `delivered` or `failed`.
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
"""Deliver times are based on store times, which may be ahead of the wall clock by this (ms) after
the clock went back."""

AT_ONCE = 0
"""Wall time for "read now"; it is in the past even after the clock was set back."""

RETRY_MS = 1000
"""First pause (ms) after a failed delivery; it is doubled up to `RETRY_MAX_MS`."""

RETRY_MAX_MS = 10_000


BATCH_FIRST, BATCH_MAX = 32, 256
"""First and largest batch size of a level, in messages. A full batch that is stored doubles the
next. A refused batch quarters it: a part may have been stored, and messages in flight at a role
change are delivered twice (INV-27)."""


class ReadUnits(NamedTuple):
    """A request to read up to `most` units of `level` from `queue_offset` on.

    The driver reports their deliver times with `Schedule.found`.
    """

    level: int
    queue_offset: int
    most: int = BATCH_FIRST


class Level:
    """State of one level. `look_at` is when to read it again (wall ms); None: when a message
    arrives."""

    __slots__ = ("batch", "busy", "delay_ms", "failures", "look_at", "progress")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.progress = 0
        self.batch = BATCH_FIRST
        self.look_at: int | None = AT_ONCE
        self.busy = False
        self.failures = 0


def _is_time(level: Level, look_at: int, wall: int) -> bool:
    """Return whether the level is due to be read.

    A time further away than any valid time means that the clock went back, so it counts as due.
    """
    furthest = max(level.delay_ms, RETRY_MAX_MS) if level.failures else level.delay_ms
    return look_at <= wall or look_at > wall + furthest + AHEAD_MS


class Schedule:
    """Progress of all delay levels; levels are numbered from 1."""

    def __init__(self, delays_ms: Sequence[int], progress: Mapping[int, int] | None = None) -> None:
        self._levels = {number: Level(delay) for number, delay in enumerate(delays_ms, start=1)}
        self.restore(progress or {})
        self.updates = 0
        """Counts changes of the progress; `DelayOffsets` compares it to decide when to save."""

    @property
    def level_max(self) -> int:
        return len(self._levels)

    def progress(self) -> dict[int, int]:
        """Return the next queue offset to deliver, by level."""
        return {number: level.progress for number, level in self._levels.items()}

    def restore(self, progress: Mapping[int, int]) -> None:
        """Load a saved progress; levels that it does not contain start at queue offset 0."""
        for number, level in self._levels.items():
            level.progress = max(0, progress.get(number, 0))

    def let_go(self) -> None:
        """Mark all levels as not busy, because the role changed and no outcome is reported."""
        for level in self._levels.values():
            level.busy = False

    def advance(self, progress: Mapping[int, int]) -> int:
        """Take over larger offsets of another broker; return how many levels moved."""
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
        """Make every level due, because the role or the progress has changed."""
        for level in self._levels.values():
            level.look_at = AT_ONCE

    def level_for(self, wanted: int) -> int:
        """Return the level for a message that asks for `wanted` (> 0), at most the highest."""
        return min(wanted, self.level_max)

    def delay_ms(self, number: int) -> int:
        return self._levels[number].delay_ms

    def clamp(self, number: int, low: int, high: int) -> None:
        """Limit the progress to the queue's bounds `low` and `high`.

        Call it after a load, or when retention has deleted messages.
        """
        level = self._levels[number]
        progress = min(max(level.progress, low), high)
        if progress != level.progress:
            level.progress = progress
            self.updates += 1

    def looks(self, wall: int) -> list[ReadUnits]:
        """Return the levels to read now; a level with a delivery in flight is left out."""
        return [
            ReadUnits(number, level.progress, level.batch)
            for number, level in self._levels.items()
            if not level.busy and level.look_at is not None and _is_time(level, level.look_at, wall)
        ]

    def found(self, number: int, deliver_walls: Sequence[int], wall: int) -> int:
        """Return how many of the units read at the progress are to be delivered now.

        `deliver_walls` are their deliver times (wall ms). A time further away than the delay of the
        level plus `AHEAD_MS` means that the clock was set back or the levels were changed; as in
        RocketMQ, such a message is due at once. The level is busy until the result is reported.
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
        """Return the same count as `found`, without changing the level."""
        latest = wall + self._levels[number].delay_ms + AHEAD_MS
        for count, deliver_wall in enumerate(deliver_walls):
            if wall < deliver_wall <= latest:
                return count
        return len(deliver_walls)

    def delivered(self, number: int, next_offset: int) -> None:
        """Report that the internal writer has acknowledged everything before `next_offset`."""
        level = self._levels[number]
        check(next_offset > level.progress, "schedule: progress only rises by a delivery")
        if next_offset - level.progress >= level.batch:
            level.batch = min(2 * level.batch, BATCH_MAX)
        level.progress = next_offset
        level.busy = False
        level.failures = 0
        self.updates += 1

    def failed(self, number: int, wall: int) -> None:
        """Report that the delivery was refused; it is tried again after a pause."""
        level = self._levels[number]
        level.batch = max(level.batch // 4, 1)
        level.busy = False
        level.look_at = wall + backoff_ms(level.failures, RETRY_MS, RETRY_MAX_MS)
        level.failures += 1

    def pause(self, number: int) -> None:
        """Read the level no more until `resume`; its messages are being read from the device."""
        self._levels[number].busy = True

    def resume(self, number: int) -> None:
        """Read the level again, at once."""
        self._levels[number].busy = False

    def arrived(self, number: int) -> None:
        """Report a new message of a level; an idle level is read at once.

        It does not wait for the delay first: the message may have been in the log for long before
        it became readable.
        """
        level = self._levels.get(number)
        if level is not None and level.look_at is None:
            level.look_at = AT_ONCE

    def next_deadline(self) -> int | None:
        """Return the earliest wall time (ms) at which `looks` returns a level; None if none."""
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
# config/delayOffset.json: the progress of each delay level.


class DelayOffsets:
    """Saves and copies the progress of a `Schedule`.

    The version steps once for every `version_step` changes of the progress.
    """

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
        """Step the version as often as the deliveries require; replicas compare the version."""
        steps = self.schedule.updates // self.version_step
        while self._stepped < steps:  # RocketMQ steps at the delivery itself, so as often as this
            self._stepped += 1
            self.version = self.version.next_version(wall)

    def content(self) -> dict[str, Any]:
        """Return the content of the file and of GET_ALL_DELAY_OFFSET; levels count from 1."""
        return {"dataVersion": self.version, "offsetTable": self.schedule.progress()}

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def load(self, content: dict[str, Any]) -> None:
        """Load the progress from the file; the caller clamps it to the queues afterwards."""
        table, self.version = _read(content)
        self.schedule.restore(table)

    def follow(self, content: dict[str, Any]) -> None:
        """Take over the table of the master; a level that is further here stays (INV-29)."""
        table, version = _read(content)
        self.version = max(version, self.version)
        self.schedule.advance(table)
        self.dirty = True

    def merge(self, content: dict[str, Any], wall: int) -> int:
        """Take over levels that another replica has delivered further; return how many.

        The new version is higher than both. The caller clamps the progress afterwards.
        """
        table, version = _read(content)
        self.version = max(version, self.version).next_version(wall)
        self.dirty = True
        return self.schedule.advance(table)


def _read(content: dict[str, Any]) -> tuple[dict[int, int], DataVersion]:
    table = msgspec.convert(content.get("offsetTable") or {}, dict[int, int], strict=False)
    version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
    return table, version
