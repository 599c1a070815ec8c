"""Sends that wait for one broker's answer, and how long it has said nothing."""


class Awaited:
    """What is awaited from one address; told of each send and of each end."""

    __slots__ = ("_count", "_quiet_since_ms", "topic")

    def __init__(self) -> None:
        self._count = 0
        self._quiet_since_ms = 0
        self.topic = ""
        """That of the latest send."""

    def sent(self, topic: str, now: int) -> None:
        """One more waits."""
        if not self._count:
            self._quiet_since_ms = now
        self._count += 1
        self.topic = topic

    def ended(self, now: int) -> None:
        """One was answered, or is given up."""
        self._count -= 1
        self._quiet_since_ms = now

    def is_silent(self, now: int, limit_ms: int) -> bool:
        """Whether something waits and nothing ended for `limit_ms`."""
        return self._count > 0 and now - self._quiet_since_ms >= limit_ms
