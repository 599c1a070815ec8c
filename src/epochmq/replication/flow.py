"""How much log a master may send to all its followers in one second (haFlowControlEnable)."""

_SECOND_MS = 1000


class Flow:
    """Counts bytes in seconds that begin with the first byte sent."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._limit = bytes_per_second
        self._began_ms = 0
        self._sent = 0

    def allowance(self, now: int) -> int | None:
        """Bytes that may be sent now; None for any number."""
        if self._limit is None:
            return None
        if now - self._began_ms >= _SECOND_MS:
            self._began_ms, self._sent = now, 0
        return max(0, self._limit - self._sent)

    def sent(self, count: int) -> None:
        self._sent += count

    def next_at_ms(self, now: int) -> int | None:
        """When more may be sent, if that is not now."""
        return self._began_ms + _SECOND_MS if self.allowance(now) == 0 else None
