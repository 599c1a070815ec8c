"""Which brokers live, as this controller hears it; monotonic time only, none of it is replicated.

Every controller hears every heartbeat, so a new leader starts with a warm table. An entry belongs
to the newest connection of its process: when an older one of the same broker closes, nothing
happens (rocketmq#11045), and what arrives over an older one is late.
"""

from collections.abc import Iterator

from epochmq.base import limits
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.elect import PRIORITY_UNSET, LogReport


class LiveProcess:
    """One broker's process as its heartbeats tell of it."""

    __slots__ = (
        "address",
        "closed",
        "confirm",
        "connection",
        "gone",
        "heard_ms",
        "id",
        "incarnation",
        "key",
        "lease_until",
        "leased",
        "priority",
        "report",
        "resigned",
        "session",
        "timeout_ms",
    )

    def __init__(self, key: Key, broker_id: int, now: int, timeout_ms: int) -> None:
        self.key = key
        self.id = broker_id
        self.heard_ms = now
        self.timeout_ms = timeout_ms
        self.address = ""
        self.incarnation = ""
        self.session = ""
        self.connection = -1
        """The newest one that it spoke over; the numbers of connections rise."""
        self.report = LogReport()
        self.priority = PRIORITY_UNSET
        self.confirm = -1
        self.leased = False
        """It asks for leases and keeps to them: a broker of ours."""
        self.lease_until = 0
        self.closed = False
        """Its connection is closed."""
        self.gone = False
        """Its port refuses connections as well: the process is no more."""
        self.resigned = False
        """It said that it acknowledges nothing any more."""

    def silent_at(self, since: int, quick_ms: int) -> int:
        """When its silence counts as death; at once for what is known to be gone.

        `since`: a leader counts nobody's silence from before it led. `quick_ms`: how long a broker
        with leases, or one whose connection closed, may be silent.
        """
        if self.gone:
            return self.heard_ms
        quick = self.leased or self.closed
        limit = min(self.timeout_ms, quick_ms) if quick else self.timeout_ms
        return max(self.heard_ms, since) + limit


class Liveness:
    """All entries by group and id, and by the connection they belong to."""

    def __init__(self) -> None:
        self.groups: dict[Key, dict[int, LiveProcess]] = {}
        self._by_session: dict[int, dict[tuple[Key, int], LiveProcess]] = {}
        self.count = 0

    def get(self, key: Key, broker_id: int) -> LiveProcess | None:
        found = self.groups.get(key)
        return None if found is None else found.get(broker_id)

    def of_group(self, key: Key) -> dict[int, LiveProcess]:
        return self.groups.get(key, {})

    def of_session(self, session_id: int) -> list[LiveProcess]:
        return list(self._by_session.get(session_id, {}).values())

    def all(self) -> Iterator[LiveProcess]:
        for group in self.groups.values():
            yield from group.values()

    def heard(
        self, key: Key, broker_id: int, session_id: int, now: int, timeout_ms: int
    ) -> LiveProcess | None:
        """The entry, made if need be, bound to this connection; None when there are too many."""
        group = self.groups.get(key)
        live = None if group is None else group.get(broker_id)
        if live is None:
            if self.count >= limits.LIVE_BROKERS_MAX:
                return None
            live = LiveProcess(key, broker_id, now, timeout_ms)
            self.groups.setdefault(key, {})[broker_id] = live
            self.count += 1
        live.heard_ms = now
        live.closed = live.gone = False
        if live.connection != session_id:
            self._unbind(live)
            live.connection = session_id
            self._by_session.setdefault(session_id, {})[key, broker_id] = live
        return live

    def closed(self, session_id: int) -> list[LiveProcess]:
        """A connection closed: who spoke over it last, now marked. Never who speaks over another.

        The marks are set before anybody acts on them.
        """
        lost = list(self._by_session.pop(session_id, {}).values())
        for live in lost:
            live.closed = True
        return lost

    def is_late(self, key: Key, broker_id: int, session_id: int) -> bool:
        """Whether what arrives over this connection was said before what is known already: the
        process has a newer connection since.
        """
        live = self.get(key, broker_id)
        return live is not None and session_id < live.connection

    def forget(self, key: Key, broker_id: int) -> None:
        group = self.groups.get(key, {})
        live = group.pop(broker_id, None)
        if live is not None:
            self._unbind(live)
            self.count -= 1
            if not group:
                del self.groups[key]

    def forget_other(self, key: Key, broker_id: int, session: str) -> None:
        """Drop what is known of another process than that of `session`."""
        live = self.get(key, broker_id)
        if live is not None and live.session != session:
            self.forget(key, broker_id)

    def expire(self, now: int, since: int) -> list[LiveProcess]:
        """Drop who has been silent for a whole timeout, however that is told."""
        dead = [one for one in self.all() if max(one.heard_ms, since) + one.timeout_ms <= now]
        for live in dead:
            self.forget(live.key, live.id)
        return dead

    def _unbind(self, live: LiveProcess) -> None:
        bound = self._by_session.get(live.connection)
        if bound is not None:
            bound.pop((live.key, live.id), None)
            if not bound:
                del self._by_session[live.connection]


# Leases --------------------------------------------------------------------------------------
# Write leases of masters: when one may be given, and until when one may still be held.
#
# A lease is given in the answer to a heartbeat and counts, at the master, from before that
# heartbeat was sent; here it counts from the answer, which is later, plus a margin for clocks
# that run at different rates. No lease is written anywhere: a new leader takes it that every
# master was given one just before it began to lead, and an old one gives none unless it is sure
# to lead still.


def may_hold(group: BrokerGroup, live: LiveProcess, epoch: int | None) -> bool:
    """Whether this broker is the master, in the epoch it says it is in, and still the process that
    was made master.
    """
    replica = group.master_replica()
    return (
        replica is not None
        and replica.id == live.id
        and live.session in ("", replica.session)
        and group.elected
        and epoch == group.epoch
        and live.leased
        and not live.resigned
    )


def held_until(live: LiveProcess | None, leader_since: int, presumed_ms: int, skew_ms: int) -> int:
    """Before this time the master may believe that it holds a lease; 0 when it cannot."""
    if live is not None and (live.gone or live.resigned or not live.leased):
        return 0
    until = leader_since + presumed_ms
    if live is not None:
        until = max(until, live.lease_until)
    return until + skew_ms


def dead_at(
    group: BrokerGroup,
    live: LiveProcess | None,
    leader_since: int,
    held_until_ms: int,
    times: "Times",
) -> int:
    """When the recorded master counts as dead and another may be elected; 0: it is no more.

    Never before its lease has ended, unless it is known that nobody is there to hold it.
    """
    if group.master is None or (live is not None and (live.gone or live.resigned)):
        return 0
    if live is None:
        return max(leader_since + times.timeout_ms, held_until_ms)
    return max(live.silent_at(leader_since, times.lease_ms), held_until_ms)


class Times:
    """The durations a controller works with, in ms."""

    __slots__ = ("lease_ms", "skew_ms", "timeout_ms")

    def __init__(self, lease_ms: int, skew_ms: int, timeout_ms: int) -> None:
        self.lease_ms = lease_ms
        self.skew_ms = skew_ms
        self.timeout_ms = timeout_ms
