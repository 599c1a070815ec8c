"""Which controller is the active one.

Found by asking all of them at once, and by every answer to a heartbeat; lost when it cannot be
reached, closes, or says that it is not the leader. Then it is looked for at once: upstream waits
for its ten seconds' poll. Of two that claim it the higher term is believed.
"""

from collections.abc import Sequence

PAUSE_MS = 50
PAUSE_MAX_MS = 1000
MISSING_MS = 3000
"""Nobody leads for so long: longer than controllers take to elect one, so an operator is told."""


class Finder:
    """The configured controllers, what they said, and when to ask again."""

    def __init__(self, controllers: Sequence[str], period_ms: int) -> None:
        self.controllers = tuple(controllers)
        self._period_ms = period_ms
        self.active: str | None = None
        self.term = 0
        """Of the active controller, or of the last one; a wiped controller begins anew at 1."""
        self.due_at_ms = 0
        self._asked_at_ms = -PAUSE_MAX_MS
        self._pause_ms = PAUSE_MS
        self._missing_from_ms: int | None = None

    def due(self, now: int) -> bool:
        """Whether to ask all controllers now; counts as done."""
        if now < self.due_at_ms:
            return False
        self._asked_at_ms = now
        if self.active is not None:
            self.due_at_ms = now + self._period_ms
        else:
            if self._missing_from_ms is None:
                self._missing_from_ms = now
            self.due_at_ms = now + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, PAUSE_MAX_MS)
        return True

    def leader(self, address: str, term: int, now: int) -> bool:
        """`address` says that it leads, or is said to; whether that is news."""
        if self.active is not None and self.active != address:
            if term < self.term:
                return False
        if term:
            self.term = term
        news = address != self.active
        self.active = address
        self._missing_from_ms = None
        self._pause_ms = PAUSE_MS
        self.due_at_ms = now + self._period_ms
        return news

    def lost(self, address: str, now: int) -> None:
        """`address` is not, or no longer, the active one."""
        if address == self.active:
            self.active = None
            self.due_at_ms = max(now, self._asked_at_ms + self._pause_ms)

    def problem(self, now: int) -> str:
        """What an operator should know when nobody leads for long; else nothing."""
        since = self._missing_from_ms
        if since is None or now - since < MISSING_MS:
            return ""
        return (
            f"no active controller at {';'.join(self.controllers)} (controllerAddr): roles and"
            " leases come from there, so a broker without them serves nobody until one answers"
        )

    def use(self, controllers: Sequence[str], now: int) -> None:
        """Another list of addresses, from DNS."""
        if tuple(controllers) != self.controllers:
            self.controllers = tuple(controllers)
            self.due_at_ms = now
            if self.active not in self.controllers:
                self.active = None
