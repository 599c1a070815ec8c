"""The real clocks behind `base.ports.Clock`."""

import time
from collections.abc import Callable
from functools import partial


def _counting_suspension() -> Callable[[], int]:
    """The system's monotonic clock in ns that goes on while the machine is suspended (Linux); where
    there is none, the one that there is.
    """
    number = getattr(time, "CLOCK_BOOTTIME", None)
    if number is None:
        return time.monotonic_ns
    try:
        time.clock_gettime_ns(number)
    except OSError:
        return time.monotonic_ns
    return partial(time.clock_gettime_ns, number)


steady_ns = _counting_suspension()
"""Monotonic nanoseconds of every deadline and lease: a lease that ended while the machine slept
must not seem to run."""


class RealClock:
    """Monotonic time for every deadline, wall time only for messages and logs."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Monotonic milliseconds, time of suspension included; the zero point means nothing."""
        return steady_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; jumps when somebody sets the clock."""
        return time.time_ns() // 1_000_000
