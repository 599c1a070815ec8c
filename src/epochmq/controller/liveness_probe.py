"""The liveness probe: tries the port of a broker whose connection closed.

A closed connection may be a problem of the network. If the port refuses connections as well, no
process listens: the process has ended, and its lease with it. A port that does not answer proves
nothing.
"""

from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_effects import Dial
from epochmq.controller.controller_state import Key
from epochmq.controller.liveness import LiveProcess

RETRY_MS = (50, 100, 200, 400, 800)
"""A dying process closes its connections and its port at different times."""


class LivenessProbe:
    """The ports to try; `dialed` returns the broker that is gone."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._under_way: dict[int, tuple[LiveProcess, int]] = {}
        self._later: list[tuple[int, LiveProcess, int]] = []

    def try_at(self, live: LiveProcess, tries: int = 0) -> None:
        """Try the port of a broker, if trustRefusedConnections is on."""
        if live.address and self._context.options.trust_refused_connections:
            ticket = self._context.ticket()
            self._under_way[ticket] = live, tries
            self._context.effects.append(Dial(ticket, live.address))

    def dialed(self, ticket: int, refused: bool) -> Key | None:
        """Return the group of a broker that has surely ended, else None."""
        live, tries = self._under_way.pop(ticket, (None, 0))
        if live is None or not live.closed:
            return None
        if refused:
            live.gone = True
            return live.key
        if tries < len(RETRY_MS):
            self._later.append((self._context.now + RETRY_MS[tries], live, tries + 1))
        return None

    def tick(self) -> None:
        """Repeat the attempts that are due."""
        now = self._context.now
        due = [entry for entry in self._later if entry[0] <= now]
        if due:
            self._later = [entry for entry in self._later if entry[0] > now]
            for _, live, tries in due:
                if live.closed:
                    self.try_at(live, tries)

    def next_deadline(self) -> int | None:
        """Return when the next attempt is due, or None."""
        return min((entry[0] for entry in self._later), default=None)
