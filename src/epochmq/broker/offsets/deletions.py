"""When topics and groups were deleted last: offsets from before that mean messages that are gone.

A deleted topic may be made anew under its name and begins at 0 again. Whoever was away then still
has the old, larger offsets; beside ours they would win every comparison (INV-29, ADR 0067). So the
times of deletions travel with the offsets, as `epochmqDropped`: `topic@` or `@group` to wall ms,
which RocketMQ skips. A table without it is one of RocketMQ's, and says nothing of deletions.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from epochmq.base import limits

FIELD = "epochmqDropped"


class Deletions:
    """Bounded: of very many deletions only the last are known."""

    __slots__ = ("_marks",)

    def __init__(self, marks: dict[str, int] | None = None) -> None:
        self._marks = marks or {}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> "Deletions | None":
        """Those of a file or body, None of one that says nothing; `msgspec.ValidationError`."""
        if FIELD not in content:
            return None
        return cls(msgspec.convert(content[FIELD], dict[str, int], strict=False))

    def topic(self, name: str, wall: int) -> None:
        self._mark(f"{name}@", wall)

    def group(self, name: str, wall: int) -> None:
        self._mark(f"@{name}", wall)

    def _mark(self, name: str, wall: int) -> None:
        """Later than the last one, also for a clock that was set back."""
        self._marks[name] = max(wall, self._marks.get(name, 0) + 1)
        self._bound()

    def since(self, key: str) -> int:
        """When a row, `topic@group`, can have begun at the earliest; 0 for any time."""
        topic, _, group = key.partition("@")
        return max(self._marks.get(f"{topic}@", 0), self._marks.get(f"@{group}", 0))

    def outdated(self, rows: Iterable[str], by: "Deletions") -> list[str]:
        """Those of these rows of ours that are from before a deletion that only `by` knows."""
        return [key for key in rows if by.since(key) > self.since(key)]

    def join(self, other: "Deletions") -> None:
        for name, mark in other.marks().items():
            self._marks[name] = max(mark, self._marks.get(name, 0))
        self._bound()

    def _bound(self) -> None:
        while len(self._marks) > limits.DELETIONS_KNOWN_MAX:
            del self._marks[min(self._marks, key=self._marks.__getitem__)]

    def marks(self) -> dict[str, int]:
        return dict(self._marks)
