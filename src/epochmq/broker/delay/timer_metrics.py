"""Timer metrics (config/timermetrics): how many timed messages of each topic wait.

The counts change with each message. After a crash they may be slightly wrong until the wheel is
rebuilt.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from epochmq.base.limits import TOPICS_MAX
from epochmq.model.data_version import DataVersion
from epochmq.wire import json_tolerant


class TopicTimers(msgspec.Struct, rename="camel"):
    """The count of one topic, and its last change (wall ms)."""

    count: int = 0
    time_stamp: int = 0


class TimerMetrics:
    """Numbers of waiting timed messages, by real topic."""

    file = "config/timermetrics"

    def __init__(self) -> None:
        self.counts: dict[str, TopicTimers] = {}
        self.version = DataVersion()
        self.updates = 0
        self.dirty = False

    def add(self, topics: Iterable[str], step: int, wall: int) -> None:
        """Add `step` (may be negative) to the count of each of `topics`."""
        for topic in topics:
            waits = self.counts.get(topic)
            if waits is None:
                if len(self.counts) >= TOPICS_MAX:
                    continue
                waits = self.counts[topic] = TopicTimers()
            waits.count = max(0, waits.count + step)
            waits.time_stamp = wall
            self.updates += 1
            self.dirty = True

    @property
    def total(self) -> int:
        return sum(waits.count for waits in self.counts.values())

    def reset(self) -> None:
        self.counts.clear()
        self.updates += 1
        self.dirty = True

    def step_version(self, wall: int) -> None:
        """Step the version if a count changed; call it before the table is saved or sent."""
        if self.dirty:
            self.version = self.version.next_version(wall)

    def content(self) -> dict[str, Any]:
        """Return the content of the file and of the GET_TIMER_METRICS answer."""
        return {"dataVersion": self.version, "timingCount": self.counts}

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def adopt(self, content: dict[str, Any]) -> None:
        """Replace the own counts by those of another broker."""
        self.load(content)
        self.updates += 1
        self.dirty = True

    def merge(self, content: dict[str, Any], wall: int) -> bool:
        """Take over the counts of a broker with a newer version; return whether it has one."""
        told = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
        if told <= self.version:
            return False
        self.adopt(content)
        self.version = told.next_version(wall)
        return True

    def load(self, content: dict[str, Any]) -> None:
        """Load the counts from the file, or from the answer of a master."""
        counts = msgspec.convert(
            content.get("timingCount") or {}, dict[str, TopicTimers], strict=False
        )
        self.version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
        self.counts = dict(list(counts.items())[:TOPICS_MAX])
