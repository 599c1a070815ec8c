"""Searches of the key index that are under way, a bounded piece of one in each turn of the loop.

One key may be that of millions of messages, and the search for them in a span that has none walks
over all.
"""

from collections import deque
from collections.abc import Callable

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.store.key_query import KeySearch
from epochmq.store.message_index import IndexResult
from epochmq.wire.codes import ResponseCode

Done = Callable[[IndexResult | None], None]

STEP_ITEMS = 500
"""Items of the index that a turn looks at: 2 ms."""


class KeySearches:
    """Takes turns among searches; `soon` runs a call in the next turn of the loop."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._waiting: deque[tuple[KeySearch, Done]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def run(self, search: KeySearch, done: Done) -> None:
        """`done` gets the result, at once if it is found at once; None when the disk fails.

        Raises `Refused` when too many searches are under way.
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
