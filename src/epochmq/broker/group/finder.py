"""Finds the active controller: which of the configured controllers leads now.

The broker asks all controllers at once, and reads every answer to a heartbeat. The active
controller is lost when it cannot be reached, when its connection closes, or when it answers that it
is not the leader. Then the search starts at once (RocketMQ waits for its poll every 10 s). When two
controllers claim to lead, the one with the higher term is believed.
"""

from collections.abc import Sequence

PAUSE_MS = 50
PAUSE_MAX_MS = 1000
MISSING_MS = 3000
"""After this time without a leader an operator is warned; controllers take less to elect one."""


class Finder:
    """The configured controllers, which one is active, and when to ask again."""

    def __init__(self, controllers: Sequence[str], period_ms: int) -> None:
        self.controllers = tuple(controllers)
        self._period_ms = period_ms
        self.active: str | None = None
        self.term = 0
        """The term of the active controller, or of the last one; a wiped controller starts again at
        1."""
        self.due_at_ms = 0
        self._asked_at_ms = -PAUSE_MAX_MS
        self._pause_ms = PAUSE_MS
        self._missing_from_ms: int | None = None

    def due(self, now: int) -> bool:
        """Return whether to ask all controllers now, and set the time of the next question."""
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
        """Note that `address` leads, by its own answer or another's; return whether it is newly
        active."""
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
        """Note that `address` is not the active controller, or not any more."""
        if address == self.active:
            self.active = None
            self.due_at_ms = max(now, self._asked_at_ms + self._pause_ms)

    def problem(self, now: int) -> str:
        """Return a warning for operators when no controller has led for `MISSING_MS`; otherwise
        ""."""
        since = self._missing_from_ms
        if since is None or now - since < MISSING_MS:
            return ""
        return (
            f"no active controller at {';'.join(self.controllers)} (controllerAddr): roles and"
            " leases come from there, so a broker without them serves nobody until one answers"
        )

    def use(self, controllers: Sequence[str], now: int) -> None:
        """Use another list of addresses, from DNS."""
        if tuple(controllers) != self.controllers:
            self.controllers = tuple(controllers)
            self.due_at_ms = now
            if self.active not in self.controllers:
                self.active = None
