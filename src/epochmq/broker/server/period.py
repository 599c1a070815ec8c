"""Calls that a broker repeats."""

import logging
from collections.abc import Callable

from epochmq.base.errors import EnvironmentFault

log = logging.getLogger(__name__)


class Period:
    """Calls a function every `period_ms`; after a disk error it tries again at the next period."""

    def __init__(self, period_ms: int, now: int, call: Callable[[], None]) -> None:
        self._period_ms = period_ms
        self._due_at = now + period_ms
        self._call = call

    def tick(self, now: int) -> None:
        """Call the function if its period is over; `now` is monotonic ms."""
        if now < self._due_at:
            return
        self._due_at = now + self._period_ms
        try:
            self._call()
        except EnvironmentFault as error:
            log.error("cannot save: %(error)s", {"error": error})
