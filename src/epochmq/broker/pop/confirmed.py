"""Calls that wait for the log to be readable up to a place: replicated, and synced where asked.

Progress of POP moves with what is confirmed, and not with what the own broker has written: offsets
are copied to replicas by themselves, and must never arrive there before the records behind them.
"""

from collections import deque
from collections.abc import Callable


class Confirmed:
    """Ends rise, so the calls are made in the order in which they came."""

    def __init__(self, readable: Callable[[], int]) -> None:
        self._readable = readable
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def when(self, end: int, call: Callable[[], None]) -> None:
        """Call once the log up to `end` is readable; now, when it is."""
        if not self._waiting and end <= self._readable():
            call()
            return
        self._waiting.append((end, call))

    def run_due(self) -> None:
        """Make the calls whose time has come."""
        waiting = self._waiting
        if not waiting:
            return
        readable = self._readable()
        while waiting and waiting[0][0] <= readable:
            waiting.popleft()[1]()

    def clear(self) -> None:
        """What waits never comes: another role."""
        self._waiting.clear()
