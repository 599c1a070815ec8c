"""Reads messages that are not in memory in another thread; requests wait for them (ADR 0101)."""

from collections.abc import Callable
from typing import Protocol

from epochmq.store.log_memory import Prefetch

WAITING_MAX = 64
"""Requests that may wait for the device; further ones are read in the event loop."""


class RunCold(Protocol):
    """Runs a call in the thread for cold reads, then `done` on the event loop."""

    def __call__(self, call: Prefetch, done: Callable[[None], None]) -> None: ...


def run_now(call: Prefetch, done: Callable[[None], None]) -> None:
    """Run a call at once, without a thread."""
    call()
    done(None)


class ColdReads:
    """The cold reads of one broker.

    A read of the store with `from_memory` has the status COLD if the messages are not in memory.
    The caller passes its `prefetch` to `run`, and reads again in `done`, then without
    `from_memory`: what has left the memory meanwhile is read in the event loop, so that the request
    ends.
    """

    def __init__(self, run: RunCold = run_now) -> None:
        self._run = run
        self._count = 0

    @property
    def has_room(self) -> bool:
        """Whether one more request may wait; otherwise its messages are read in the event loop."""
        return self._count < WAITING_MAX

    def run(self, prefetch: Prefetch, done: Callable[[], None]) -> None:
        """Bring messages into memory, then call `done` on the event loop; not after a stop."""
        self._count += 1

        def over(_: None) -> None:
            self._count -= 1
            done()

        self._run(prefetch, over)
