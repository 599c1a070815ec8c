"""Audit log: one line for each change by an administrator, and for each refused request.

The lines go to the logger `epochmq.audit`; option `auditLogFile` gives it a file. They contain no
passwords: of a request only its name and the resources that it needs are written. Strangers can
cause refusals, so that lines about them are limited.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from epochmq.auth.access_control import AccessRefused
from epochmq.base.errors import Refused
from epochmq.base.log_throttle import LogThrottle, also_left_out
from epochmq.model.host import host_of
from epochmq.wire.command import Held, Reply

LOGGER = "epochmq.audit"
log = logging.getLogger(LOGGER)

REPORT_MS = 1_000
"""At most one line is written in this time for refusals of one kind from one address."""
_LENGTH_MAX = 200
ENTRIES_MAX = 500
"""Lines that a server keeps for the dashboard."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit log; `wall_ms` is Unix milliseconds."""

    wall_ms: int
    user: str
    peer: str
    request: str
    resources: str
    result: str


class AuditLog:
    """Writes the audit log of one server, and keeps its latest lines.

    Args:
        wall_ms: the clock, Unix milliseconds; without one, no lines are kept.
    """

    def __init__(self, wall_ms: Callable[[], int] | None = None) -> None:
        self._throttle = LogThrottle(REPORT_MS)
        self._wall_ms = wall_ms
        self.entries: deque[AuditEntry] = deque(maxlen=ENTRIES_MAX)
        """The latest lines, oldest first."""

    def changed(
        self, request: str, peer: str, user: str, resources: Iterable[str], problem: str
    ) -> None:
        """Write a line about a change; an empty `problem` means that it was accepted."""
        values = {
            "user": _short(user),
            "peer": peer,
            "request": request,
            "resources": _short(",".join(resources)) or "-",
            "result": f"refused: {_short(problem)}" if problem else "accepted",
        }
        self._keep(values)
        log.info(
            "user=%(user)s from=%(peer)s request=%(request)s on=%(resources)s result=%(result)s",
            values,
            extra={"event": "audit_change"},
        )

    def _keep(self, values: dict[str, str]) -> None:
        if self._wall_ms is not None:
            self.entries.append(AuditEntry(self._wall_ms(), **values))

    def run(
        self,
        request: str,
        peer: str,
        user: str,
        resources: Callable[[], Iterable[str]],
        handle: Callable[[], Reply | Held],
    ) -> Reply | Held:
        """Call `handle`, which makes a change, and write a line about its result."""
        try:
            reply = handle()
        except Refused as error:
            self.changed(request, peer, user, resources(), error.remark)
            raise
        problem = (reply.remark or "failed") if isinstance(reply, Reply) and reply.code else ""
        self.changed(request, peer, user, resources(), problem)
        return reply

    def refused(self, request: str, peer: str, error: AccessRefused, now: int) -> None:
        """Write a line about a request that access control refused; `now` is monotonic ms."""
        left_out = self._throttle.left_out(f"{host_of(peer)} {error.reason}", now)
        if left_out is not None:
            self._keep(
                {
                    "user": _short(error.user),
                    "peer": peer,
                    "request": request,
                    "resources": "-",
                    "result": f"denied: {_short(error.reason)}",
                }
            )
            log.warning(
                "user=%(user)s from=%(peer)s request=%(request)s result=denied: %(reason)s"
                "%(left_out)s",
                {
                    "user": _short(error.user),
                    "peer": peer,
                    "request": request,
                    "reason": _short(error.reason),
                    "left_out": also_left_out(left_out),
                },
                extra={"event": "audit_refusal"},
            )


def _short(text: str) -> str:
    """Return a text that a client chose: printable, without line breaks, and not long."""
    return text[:_LENGTH_MAX].encode("unicode_escape").decode()
