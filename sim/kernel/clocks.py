"""A host's two clocks: a monotonic one with its own rate, and a wall clock that can jump."""

BOOT_MS = 100_000
WALL_MS = 1_700_000_000_000


class HostClock:
    """Implements `base.ports.Clock`; the monotonic clock may run fast or slow, but never back."""

    def __init__(self, drift_ppm: int = 0, wall_offset_ms: int = 0, boot_ms: int = BOOT_MS) -> None:
        self._rate = 1_000_000 + drift_ppm
        self._boot_ms = boot_ms
        self._wall_ms = WALL_MS + wall_offset_ms
        self.true_us = 0
        """Set by the world before the host runs."""

    def now_ms(self) -> int:
        return self._boot_ms + self.true_us * self._rate // 1_000_000_000

    def wall_ms(self) -> int:
        return self._wall_ms + self.true_us * self._rate // 1_000_000_000

    def step_wall(self, ms: int) -> None:
        """Change the wall clock by `ms`."""
        self._wall_ms += ms

    @property
    def wall_at_start_ms(self) -> int:
        """What the wall clock showed when the world began, were it never set since."""
        return self._wall_ms

    def true_us_of(self, now_ms: int) -> int:
        """The first microsecond of true time at which `now_ms()` is at least `now_ms`."""
        return -(-(now_ms - self._boot_ms) * 1_000_000_000 // self._rate)
