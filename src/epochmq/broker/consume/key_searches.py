"""Searches of the key index and other long reads: a limited piece in each turn of the loop.

Millions of messages may share one key, and a search in a time span without any of them still has to
walk over all of them; the statistics of all groups read thousands of queues. A search whose records
are not in memory waits until another thread has read them; the other searches go on.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.store.cold_reads import ColdReads
from epochmq.store.key_query import SteppedSearch
from epochmq.store.log_memory import NotInMemory
from epochmq.wire.codes import ResponseCode

T = TypeVar("T")

STEP_ITEMS = 500
"""Index items, or queues, that one turn examines; takes 2 to 5 ms."""
COLD_READS_MAX = 10_000
"""A search waits for the device so often; then its records are read in the event loop."""


@dataclass(slots=True)
class _Running:
    """A search that is not over."""

    search: SteppedSearch[Any]
    done: Callable[[Any], None]
    cold_reads_left: int


class KeySearches:
    """Runs several searches in turn.

    Args:
        soon: schedules a call for the next turn of the loop.
        cold_reads: reads records that are not in memory.
        memory_only: returns the context within which a step raises `NotInMemory`.
    """

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], None],
        cold_reads: ColdReads,
        memory_only: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._soon = soon
        self._cold_reads = cold_reads
        self._memory_only = memory_only
        self._waiting: deque[_Running] = deque()
        """Searches that wait for their next step."""
        self._is_scheduled = False
        self._reading = 0
        """Searches that wait for the device."""

    def __len__(self) -> int:
        return len(self._waiting) + self._reading

    def run(self, search: SteppedSearch[T], done: Callable[[T | None], None]) -> None:
        """Start a search; `done` gets the result, possibly at once, or None if the disk fails.

        Raises `Refused` (SYSTEM_BUSY) if too many searches are running.
        """
        if len(self) >= limits.KEY_SEARCHES_MAX:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self)} searches are under way already; ask again later",
            )
        self._waiting.append(_Running(search, done, COLD_READS_MAX))
        if not self._is_scheduled:
            self._step()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        running = self._waiting.popleft()
        is_over, found = True, None
        try:
            with self._context(running):
                is_over = running.search.step(STEP_ITEMS)
                found = running.search.result if is_over else None
        except EnvironmentFault:
            is_over, found = True, None
        except NotInMemory as missing:
            self._read(running, missing)
            is_over = False
        else:
            if not is_over:
                self._waiting.append(running)
        self._schedule()
        if is_over:
            running.done(found)

    def _context(self, running: _Running) -> AbstractContextManager[None]:
        """Return the context of a step: within it, the search waits for the device or not."""
        if running.cold_reads_left and self._cold_reads.has_room:
            return self._memory_only()
        return nullcontext()

    def _read(self, running: _Running, missing: NotInMemory) -> None:
        """Continue the search when its records are in memory."""
        running.cold_reads_left -= 1
        self._reading += 1

        def done() -> None:
            self._reading -= 1
            self._waiting.append(running)
            self._schedule()

        self._cold_reads.run(missing.prefetch, done)
