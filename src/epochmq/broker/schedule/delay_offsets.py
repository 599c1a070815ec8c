"""config/delayOffset.json: how far each delay level is delivered."""

from typing import Any

import msgspec

from epochmq.broker.schedule.delay_schedule import Schedule
from epochmq.model.data_version import DataVersion
from epochmq.wire import json_tolerant


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
