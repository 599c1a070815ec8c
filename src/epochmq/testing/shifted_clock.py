"""The clocks of the servers of a test: the real ones, with a wall clock that a test can set."""

from epochmq.runtime.clock import RealClock


class ShiftedClock(RealClock):
    """The real clocks; `advance` moves the wall clock of all servers that share the object."""

    __slots__ = ("_shift_ms",)

    def __init__(self) -> None:
        self._shift_ms = 0

    def advance(self, ms: int) -> None:
        """Move the wall clock by `ms`; negative values move it back."""
        self._shift_ms += ms

    def wall_ms(self) -> int:
        """Return ms since the Unix epoch, moved by what `advance` added up."""
        return super().wall_ms() + self._shift_ms
