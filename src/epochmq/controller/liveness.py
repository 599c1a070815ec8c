"""Which brokers live according to their heartbeats at this controller; none of it is replicated.

Every controller gets every heartbeat, so a new leader knows the living brokers. Times are
monotonic. An entry belongs to the newest connection of its process. When an older connection
closes, nothing happens (rocketmq#11045), and requests over an older connection are late.
"""

from collections.abc import Iterator

from epochmq.base import limits
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.elect import PRIORITY_UNSET, LogReport


class LiveProcess:
    """One process of a broker, as its heartbeats describe it."""

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
        """Its newest connection; numbers of connections rise."""
        self.report = LogReport()
        self.priority = PRIORITY_UNSET
        self.confirm = -1
        self.leased = False
        """It asks for leases and respects them: an EpochMQ broker."""
        self.lease_until = 0
        self.closed = False
        """Its connection is closed."""
        self.gone = False
        """Its port refuses connections as well: the process has ended."""
        self.resigned = False
        """It reported that it does not acknowledge any more."""

    def silent_at(self, since: int, quick_ms: int) -> int:
        """Return when the broker counts as dead by silence.

        Args:
            since: when this controller began to lead; earlier silence does not count.
            quick_ms: the longest silence of a broker with leases, or with a closed connection.
        """
        if self.gone:
            return self.heard_ms
        quick = self.leased or self.closed
        limit = min(self.timeout_ms, quick_ms) if quick else self.timeout_ms
        return max(self.heard_ms, since) + limit


class Liveness:
    """All entries, by group and broker id, and by connection."""

    def __init__(self) -> None:
        self.groups: dict[Key, dict[int, LiveProcess]] = {}
        self._by_session: dict[int, dict[tuple[Key, int], LiveProcess]] = {}
        self.count = 0

    def get(self, key: Key, broker_id: int) -> LiveProcess | None:
        """Return the entry of a broker, or None."""
        found = self.groups.get(key)
        return None if found is None else found.get(broker_id)

    def of_group(self, key: Key) -> dict[int, LiveProcess]:
        """Return the entries of a group, by broker id."""
        return self.groups.get(key, {})

    def of_session(self, session_id: int) -> list[LiveProcess]:
        """Return the entries that belong to a connection."""
        return list(self._by_session.get(session_id, {}).values())

    def all(self) -> Iterator[LiveProcess]:
        """Return all entries."""
        for group in self.groups.values():
            yield from group.values()

    def heard(
        self, key: Key, broker_id: int, session_id: int, now: int, timeout_ms: int
    ) -> LiveProcess | None:
        """Return the entry, created if needed and bound to this connection; None if there are too
        many.
        """
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
        """Mark and return the brokers whose newest connection closed.

        All are marked before any of them is handled.
        """
        lost = list(self._by_session.pop(session_id, {}).values())
        for live in lost:
            live.closed = True
        return lost

    def is_late(self, key: Key, broker_id: int, session_id: int) -> bool:
        """Whether a request over this connection is older than what is known.

        It is, if the process has a newer connection.
        """
        live = self.get(key, broker_id)
        return live is not None and session_id < live.connection

    def forget(self, key: Key, broker_id: int) -> None:
        """Remove the entry of a broker."""
        group = self.groups.get(key, {})
        live = group.pop(broker_id, None)
        if live is not None:
            self._unbind(live)
            self.count -= 1
            if not group:
                del self.groups[key]

    def forget_other(self, key: Key, broker_id: int, session: str) -> None:
        """Remove the entry if it is of another process than `session`."""
        live = self.get(key, broker_id)
        if live is not None and live.session != session:
            self.forget(key, broker_id)

    def expire(self, now: int, since: int) -> list[LiveProcess]:
        """Remove and return the brokers that were silent for a whole timeout."""
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
# Write leases of masters: when a lease may be given, and until when it may be held.
#
# A lease is given in the answer to a heartbeat. At the master it begins before that heartbeat was
# sent. At the controller it begins with the answer, which is later, plus a margin for clocks with
# different rates. Leases are not stored. A new leader assumes that every master got a lease just
# before it began to lead. An old leader gives no lease unless it is sure that it still leads.


def may_hold(group: BrokerGroup, live: LiveProcess, epoch: int | None) -> bool:
    """Whether this broker is the master, in the epoch that it reports, and the same process as
    elected.
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
    """Return until when the master may believe that it holds a lease; 0 if it cannot."""
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
    """Return when the recorded master counts as dead, so that another may be elected.

    This is never before its lease has ended, unless it is known that no process holds it. 0 means
    that the master does not exist any more.
    """
    if group.master is None or (live is not None and (live.gone or live.resigned)):
        return 0
    if live is None:
        return max(leader_since + times.timeout_ms, held_until_ms)
    return max(live.silent_at(leader_since, times.lease_ms), held_until_ms)


class Times:
    """The durations of a controller, in ms."""

    __slots__ = ("lease_ms", "skew_ms", "timeout_ms")

    def __init__(self, lease_ms: int, skew_ms: int, timeout_ms: int) -> None:
        self.lease_ms = lease_ms
        self.skew_ms = skew_ms
        self.timeout_ms = timeout_ms
