"""Notices that the machine stood still while its monotonic clock did too.

A paused virtual machine, or one that goes on from a snapshot, may count none of that time: a lease
that ended elsewhere long ago seems to run. The wall clock comes right sooner or later, and then it
runs ahead of the monotonic one.
"""

JUMP_MS = 100
"""The margin of leases (leaseSkewMillis), less than that of Raft's: clocks that run apart slower
than that do no harm."""


class Jumps:
    """Compares both clocks from look to look."""

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        self.count = 0

    def look(self, now: int, wall: int) -> bool:
        """Whether wall time ran ahead of monotonic time by more than `JUMP_MS` since the last look.

        A clock that somebody sets forward looks the same.
        """
        ahead_ms, before_ms = wall - now, self._ahead_ms
        self._ahead_ms = ahead_ms
        if before_ms is None or ahead_ms - before_ms <= JUMP_MS:
            return False
        self.count += 1
        return True
