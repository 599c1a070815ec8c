"""A bound on what many connections hold together, for next to nothing at each of their steps.

Whoever takes more adds it to `seen` and calls `settle` once that is above `limit`; nobody says when
something is given back. So `seen` is never too small, and when it reaches the limit everything is
counted exactly. Who holds the most then has to go, until a quarter of the limit is free: at least
that much passes before the next count.
"""

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

H = TypeVar("H")

_GOAL = 3 / 4


class Budget(Generic[H]):
    """`seen` and `limit` are in bytes; `held` tells what one of `holders` holds."""

    __slots__ = ("_cut", "_held", "_holders", "_what", "limit", "seen")

    def __init__(
        self,
        limit: int,
        holders: Collection[H],
        held: Callable[[H], int],
        cut: Callable[[H, str], None],
        what: str,
    ) -> None:
        self.limit = limit
        self.seen = 0
        self._holders = holders
        self._held = held
        self._cut = cut
        self._what = what

    def enforce(self, asking: H, wanted: int = 0) -> bool:
        """Count exactly, `wanted` bytes more for `asking`; cut the largest while it is too much.

        False when `asking` was cut.
        """
        held = self._held
        sizes = {holder: held(holder) for holder in self._holders}
        sizes[asking] = held(asking) + wanted
        self.seen = total = sum(sizes.values())
        goal = int(self.limit * _GOAL)
        if total <= goal:
            return True
        stays = True
        for holder in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if self.seen <= goal:
                break
            self.seen -= sizes[holder]
            stays = stays and holder is not asking
            self._cut(holder, f"all peers together {self._what} {total} bytes, this one the most")
        return stays
