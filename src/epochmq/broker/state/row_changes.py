"""Row changes: the order in which the rows of a table changed, so that replicas copy it in parts.

A replica names the count of the last change that it has, and gets the rows that changed after it,
the oldest change first, up to `PART_BYTES`. It asks again while there is more. So a table of any
size is copied in answers that fit into a frame, and a change costs one row (ADR 0109).
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

PART_BYTES = 1024 * 1024
"""Estimated size of a part in JSON; encoding it takes about 5 ms."""
PART_ROWS = 4_096
"""The largest number of rows in a part."""
REMOVED_MAX = 10_000
"""Removed rows that are remembered."""


@dataclass(frozen=True, slots=True)
class TablePart(Generic[K]):
    """The rows that a replica copies next.

    Attributes:
        rows: the changed rows that exist, the oldest change first.
        removed: rows that were removed and are not in the table again.
        count: the replica has all changes up to this count when it has the part.
        is_delta: whether the part continues what the replica has; else the copy begins here.
        has_more: whether another part follows.
    """

    rows: list[K]
    removed: list[K]
    count: int
    is_delta: bool
    has_more: bool


class RowChanges(Generic[K]):
    """The count of changes of a table, and of each row the count of its last change."""

    __slots__ = ("_last", "_removed", "_whole_before", "count")

    def __init__(self) -> None:
        self.count = 0
        """Counts every change; replicas compare it."""
        self._last: dict[K, int] = {}
        """Rows of the table, the one that changed last at the end."""
        self._removed: dict[K, int] = {}
        self._whole_before = 0
        """A replica whose count is lower must copy the whole table. All rows have higher counts."""

    def touch(self, key: K) -> None:
        """Note that a row was added or changed."""
        self.count += 1
        if self._removed:
            self._removed.pop(key, None)
        self._last.pop(key, None)
        self._last[key] = self.count

    def remove(self, key: K) -> None:
        """Note that a row was removed. After `REMOVED_MAX` of them, the whole table is copied."""
        self.count += 1
        self._last.pop(key, None)
        self._removed.pop(key, None)
        self._removed[key] = self.count
        if len(self._removed) > REMOVED_MAX:
            self.renew(list(self._last))

    def step(self) -> None:
        """Note a change that is not in a row, such as a new version of the table."""
        self.count += 1

    def renew(self, keys: Iterable[K]) -> None:
        """Note that the table has other rows now: `keys`. Replicas copy the whole table."""
        self.count += 1
        self._whole_before = self.count
        self._removed.clear()
        self._last = {key: count for count, key in enumerate(keys, self.count + 1)}
        self.count += len(self._last)

    def since(
        self,
        count: int | None,
        weigh: Callable[[K], int] | None = None,
        bytes_max: int = PART_BYTES,
    ) -> TablePart[K]:
        """Return the part after change `count`; from the first row for None or an unknown count.

        Args:
            count: the count of the last part that the replica has.
            weigh: returns the estimated bytes of a row; None puts all rows into one part.
            bytes_max: size of a part; it has at least one row, and at most `PART_ROWS`.
        """
        is_delta = count is not None and self._whole_before <= count <= self.count
        start = count if is_delta and count is not None else -1
        changed = _after(self._last, start, None if weigh is None else PART_ROWS + 1)
        if weigh is not None:
            fitting, size = 0, 0
            for _, key in changed:
                size += weigh(key)
                if (size > bytes_max and fitting) or fitting == PART_ROWS:
                    break
                fitting += 1
            if fitting < len(changed):
                return self._cut(changed[:fitting], start, is_delta=is_delta)
        removed = [key for _, key in _after(self._removed, start, None)] if is_delta else []
        return TablePart([key for _, key in changed], removed, self.count, is_delta, False)

    def _cut(self, changed: list[tuple[int, K]], start: int, *, is_delta: bool) -> TablePart[K]:
        """Return a part that ends with the last of `changed`, before later changes."""
        end = changed[-1][0]
        removed = _after(self._removed, start, None) if is_delta else []
        return TablePart(
            [key for _, key in changed],
            [key for count, key in removed if count < end],
            end,
            is_delta,
            True,
        )


def _after(counts: dict[K, int], start: int, number: int | None) -> list[tuple[int, K]]:
    """Return the first `number` pairs (count, key) above `start`; `counts` is sorted by count."""
    found: deque[tuple[int, K]] = deque(maxlen=number)
    for key, count in reversed(counts.items()):
        if count <= start:
            break
        found.append((count, key))
    found.reverse()
    return list(found)
