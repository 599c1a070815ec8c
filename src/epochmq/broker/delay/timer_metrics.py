"""config/timermetrics: how many messages of each topic wait for their time.

Counted as they come and go; after a crash a little off, until the wheel is made anew.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from epochmq.base.limits import TOPICS_MAX
from epochmq.model.data_version import DataVersion
from epochmq.wire import json_tolerant


class TopicTimers(msgspec.Struct, rename="camel"):
    """One topic."""

    count: int = 0
    time_stamp: int = 0


class TimerMetrics:
    """Messages waiting by real topic."""

    file = "config/timermetrics"

    def __init__(self) -> None:
        self.counts: dict[str, TopicTimers] = {}
        self.version = DataVersion()
        self.updates = 0
        self.dirty = False

    def add(self, topics: Iterable[str], step: int, wall: int) -> None:
        """One more, or one less, for each of `topics`."""
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
        """Before it is saved or told, if it changed."""
        if self.dirty:
            self.version = self.version.next_version(wall)

    def content(self) -> dict[str, Any]:
        """The shape of the file and of GET_TIMER_METRICS's body."""
        return {"dataVersion": self.version, "timingCount": self.counts}

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def adopt(self, content: dict[str, Any]) -> None:
        """What another broker counts, instead of ours."""
        self.load(content)
        self.updates += 1
        self.dirty = True

    def merge(self, content: dict[str, Any], wall: int) -> bool:
        """Take what a broker counts that delivered later than we did; whether it did."""
        told = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
        if told <= self.version:
            return False
        self.adopt(content)
        self.version = told.next_version(wall)
        return True

    def load(self, content: dict[str, Any]) -> None:
        """Take over a file, or a master's answer."""
        counts = msgspec.convert(
            content.get("timingCount") or {}, dict[str, TopicTimers], strict=False
        )
        self.version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
        self.counts = dict(list(counts.items())[:TOPICS_MAX])
