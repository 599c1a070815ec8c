"""Message queries by key: runs searches of the key index, a limited piece in each turn of the loop.

Millions of messages may share one key, and a search in a time span without any of them still has to
walk over all of them.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.store.key_query import SteppedSearch
from epochmq.wire.codes import ResponseCode

T = TypeVar("T")

STEP_ITEMS = 500
"""Index items that one turn examines; takes about 2 ms."""


class KeySearches:
    """Runs several searches in turn; `soon` schedules a call for the next turn of the loop."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._waiting: deque[tuple[SteppedSearch[Any], Callable[[Any], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def run(self, search: SteppedSearch[T], done: Callable[[T | None], None]) -> None:
        """Start a search; `done` gets the result, possibly at once, or None if the disk fails.

        Raises `Refused` (SYSTEM_BUSY) if too many searches are running.
        """
        if len(self._waiting) >= limits.KEY_SEARCHES_MAX:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._waiting)} searches by key are under way already; ask again later",
            )
        self._waiting.append((search, done))
        if len(self._waiting) == 1:
            self._step()

    def _step(self) -> None:
        search, done = self._waiting.popleft()
        try:
            is_over = search.step(STEP_ITEMS)
            found = search.result if is_over else None
        except EnvironmentFault:
            is_over, found = True, None
        if not is_over:
            self._waiting.append((search, done))
        if self._waiting:
            self._soon(self._step)
        if is_over:
            done(found)
