"""Registration at name servers: decides when which name server gets which topics.

The rules are RocketMQ's: a full registration at start and every `period_ms` (clamped to 10..60 s),
one call for each name server in parallel, and a changed topic at once as an incremental
registration of that topic only. A full registration of many topics is sent in parts of
`PART_TOPICS`, one after the other. A name server that did not accept the last full registration
gets a full one on every attempt, because it may know nothing of this broker; a name server refuses
an unknown broker that registers exactly one topic.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from epochmq.base.backoff import backoff_ms
from epochmq.model.data_version import DataVersion

PERIOD_MIN_MS = 10_000
PERIOD_MAX_MS = 60_000
FIRST_AGAIN_MS = 10_000
"""The second full registration follows this long after the first (ms)."""

SETTLE_TIMEOUT_MS = 3_000
"""How long an admin's answer may wait until all name servers know of the change (ms)."""

PART_TOPICS = 5_000
"""Topics in one request: about 1 MiB, which takes broker and name server some milliseconds. Both
limit a body, and RocketMQ's name servers a frame, so that not more than 40,000 would fit."""

RETRY_MS = 1_000
RETRY_MAX_MS = 3_000
"""Short, because a name server that returns has no routes until brokers register."""


class RegisterAt(NamedTuple):
    """Register at `address`: all topics when `topics` is None, else just these."""

    address: str
    topics: tuple[str, ...] | None


class TopicsPart(NamedTuple):
    """The topics of one request, and the version of the table that it names.

    A name server applies topics that it knows only under another version than the last one. So the
    parts of a registration name different versions, and the last part names the table's own.
    """

    topics: tuple[str, ...]
    version: DataVersion
    is_part: bool


def parts_of(topics: Sequence[str], version: DataVersion, *, is_all: bool) -> list[TopicsPart]:
    """Split a registration into parts of `PART_TOPICS` topics; `is_all`: the broker has no others.

    The first part of a larger table has at least two topics: a name server refuses a single topic
    of a broker that it does not know.
    """
    starts = range(0, max(1, len(topics)), PART_TOPICS)
    return [
        TopicsPart(
            tuple(topics[start : start + PART_TOPICS]),
            msgspec.structs.replace(version, timestamp=version.timestamp - left),
            not is_all or len(starts) > 1,
        )
        for start, left in zip(starts, reversed(range(len(starts))), strict=True)
    ]


class RegisteredAt:
    """The registration state of one name server."""

    __slots__ = ("calling", "due_at", "failures", "known", "missed")

    def __init__(self, now: int) -> None:
        self.due_at = now
        self.known = False
        """Whether it accepted a full registration, and none has failed since."""
        self.calling = False
        self.missed = False
        """Whether something changed during a call, so that a full registration follows the call.

        True until that second call was made.
        """
        self.failures = 0


def _clamped(period_ms: int) -> int:
    return min(max(period_ms, PERIOD_MIN_MS), PERIOD_MAX_MS)


class RegistrationPlan:
    """Plans registrations; the service makes the calls and reports their results."""

    def __init__(self, addresses: Sequence[str], period_ms: int, now: int) -> None:
        self._period_ms = _clamped(period_ms)
        self._servers = {address: RegisteredAt(now) for address in addresses}
        self._changed: dict[str, None] = {}
        self._everything = False

    def change_period(self, period_ms: int, now: int) -> None:
        """Set the registration period (ms); registrations due later than one new period from now
        become due then."""
        self._period_ms = _clamped(period_ms)
        for server in self._servers.values():
            server.due_at = min(server.due_at, now + self._period_ms)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(self._servers)

    def topics_changed(self, topics: Iterable[str]) -> None:
        """Note that these topics were created or changed; the next `due` contains them."""
        self._changed.update(dict.fromkeys(topics))

    def everything_changed(self) -> None:
        """Request a full registration as soon as possible: topics were deleted, or the role
        changed."""
        self._everything = True

    def due(self, now: int) -> list[RegisterAt]:
        """Return the calls to make now; an address gets no other call until `done`."""
        calls = []
        topics = tuple(self._changed)
        for address, server in self._servers.items():
            if server.calling:
                server.missed = server.missed or bool(topics) or self._everything
                continue
            if self._everything or server.due_at <= now:
                calls.append(RegisterAt(address, None))
            elif topics and server.known:
                calls.append(RegisterAt(address, topics))
            else:
                continue
            server.calling = True
            server.missed = False
        self._changed.clear()
        self._everything = False
        return calls

    def done(self, call: RegisterAt, ok: bool, now: int) -> None:
        """Note that a call ended; after a failure the full registration is repeated with growing
        pauses."""
        server = self._servers[call.address]
        server.calling = False
        if not ok:
            server.known = False
            server.due_at = now + backoff_ms(server.failures, RETRY_MS, RETRY_MAX_MS)
            server.failures += 1
        elif call.topics is None:
            server.due_at = now + (self._period_ms if server.known else FIRST_AGAIN_MS)
            server.known = True
            server.failures = 0
        server.missed = server.missed and ok
        if server.missed:
            server.due_at = now

    def lost(self, address: str, now: int) -> None:
        """Note that the connection broke: a name server removes a broker whose connection
        closes."""
        server = self._servers.get(address)
        if server is not None and server.known:
            server.known = False
            server.due_at = now + RETRY_MS

    def forgotten(self, address: str, now: int) -> None:
        """Register fully at once: a name server answers that it does not know this broker.

        Also after failures: the name server was away for long, and is back (H2).
        """
        server = self._servers.get(address)
        if server is not None and not server.calling:
            server.known = False
            server.due_at = min(server.due_at, now)

    def is_settled(self) -> bool:
        """Return whether no change waits for a registration, and no call is under way."""
        open_calls = any(server.calling or server.missed for server in self._servers.values())
        return not (open_calls or self._changed or self._everything)

    def next_deadline(self) -> int | None:
        """Return when `due` has a call even if nothing changes (ms); None while calls are under way
        everywhere."""
        return min((s.due_at for s in self._servers.values() if not s.calling), default=None)

    @property
    def is_registered(self) -> bool:
        """Whether a name server has the registration, or there are no name servers."""
        return not self._servers or any(server.known for server in self._servers.values())

    def statistics(self) -> dict[str, int]:
        return {
            "servers": len(self._servers),
            "known": sum(server.known for server in self._servers.values()),
        }
