"""Detects that the machine stood still and its monotonic clock did not count the time.

A paused virtual machine, or one resumed from a snapshot, may not count this time. A lease that
ended long ago would still seem to run. The wall clock is corrected sooner or later, and is then
ahead of the monotonic clock.
"""

JUMP_MS = 100
"""The margin of leases (leaseSkewMillis), less than that of Raft. Clocks that drift more slowly
than this do no harm."""


class Jumps:
    """Compares wall clock and monotonic clock at each call."""

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        self.count: int = 0

    def look(self, now: int, wall: int) -> bool:
        """Whether wall time gained more than `JUMP_MS` on monotonic time since the last call.

        A wall clock that was set forward gives the same result.
        """
        ahead_ms, before_ms = wall - now, self._ahead_ms
        self._ahead_ms = ahead_ms
        if before_ms is None or ahead_ms - before_ms <= JUMP_MS:
            return False
        self.count += 1
        return True
