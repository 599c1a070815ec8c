"""Committed offsets of one group, looked at wherever they are served: they never go back."""

import contextlib
import json
from collections.abc import Sequence

from tests.compat.peers import admin
from tests.compat.peers.pairs import Pairs


class Offsets:
    """Offsets of a topic at the brokers `name`, which die, get acting masters and return."""

    def __init__(self, pairs: Pairs, name: str, topic: str, group: str, queues: int) -> None:
        self.went_back: list[str] = []
        self._pairs = pairs
        self._name = name
        self._topic = topic
        self._group = group
        self._seen = dict.fromkeys(range(queues), 0)

    def look(self) -> None:
        """Ask the member that clients are sent to, if there is one."""
        members = self._pairs.members(self._name)
        if not members:
            return
        address = members[min(members)]
        for queue, before in self._seen.items():
            with contextlib.suppress(OSError, AssertionError, json.JSONDecodeError, KeyError):
                offset = admin.committed(address, self._topic, self._group, queue)
                if offset is None:
                    continue
                if offset < before:
                    self.went_back.append(f"queue {queue} at {address}: {before} -> {offset}")
                self._seen[queue] = max(before, offset)

    @property
    def seen(self) -> Sequence[int]:
        """The highest of each queue."""
        return tuple(self._seen.values())
