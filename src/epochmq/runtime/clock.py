"""The system clocks: the implementation of `base.ports.Clock`."""

import time
from collections.abc import Callable
from functools import partial


def _counting_suspension() -> Callable[[], int]:
    """Return the monotonic clock in ns that counts suspended time (Linux: CLOCK_BOOTTIME).

    On systems without CLOCK_BOOTTIME it is `time.monotonic_ns`.
    """
    number = getattr(time, "CLOCK_BOOTTIME", None)
    if number is None:
        return time.monotonic_ns
    try:
        time.clock_gettime_ns(number)
    except OSError:
        return time.monotonic_ns
    return partial(time.clock_gettime_ns, number)


steady_ns: Callable[[], int] = _counting_suspension()
"""Monotonic nanoseconds for deadlines and leases.

The clock counts suspended time: a lease that ended during suspension must not look valid.
"""


class RealClock:
    """Monotonic time for every deadline; wall time only for messages and logs."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return monotonic ms, with suspended time; the zero point has no meaning."""
        return steady_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return ms since the Unix epoch; jumps when the system clock is set."""
        return time.time_ns() // 1_000_000
