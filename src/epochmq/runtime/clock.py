"""The real clocks behind `base.ports.Clock`."""

import time


class RealClock:
    """Monotonic time for every deadline, wall time only for messages and logs."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Monotonic milliseconds; the zero point means nothing."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; jumps when somebody sets the clock."""
        return time.time_ns() // 1_000_000
