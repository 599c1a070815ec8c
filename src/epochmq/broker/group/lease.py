"""Lease of a master: how long it may acknowledge, the heartbeats that renew it,
minInSyncReplicas."""

from collections.abc import Sequence

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.controller_requests import ControllerRequests
from epochmq.broker.group.member_options import LogState, MembershipOptions
from epochmq.broker.group.membership_effects import SendCommand, Tag, Tell

# Lease ---------------------------------------------------------------------------------------
# How long a master may go on acknowledging: until the end of the lease that the controllers
# gave.
#
# A lease is counted from before the heartbeat was sent, so it ends here no later than at the
# controllers, whatever the network did. RocketMQ's controllers know no leases and fence nobody:
# under them a lease has no end.


class Lease:
    """The end of the current lease, in monotonic ms; it belongs to one master epoch only."""

    def __init__(self) -> None:
        self.until_ms = 0
        self.supported: bool | None = None
        """Whether the controllers give leases; None until a controller answered."""
        self.span_ms = 0
        """The length of the last lease, in ms."""
        self._may_hold = False
        """Whether the last lease allows the master to go on after its end (ADR 0044)."""
        self._from_ms = 0
        """Answers to heartbeats sent before this time (ms) grant no lease."""

    def valid(self, now: int) -> bool:
        return now < self.until_ms

    def begin(self) -> None:
        """Start a new role or epoch: no lease is granted for it yet."""
        self.until_ms = FOREVER if self.supported is False else 0
        self._may_hold = False

    def granted(self, sent_at_ms: int, span_ms: int, *, may_hold: bool = False) -> None:
        """Extend the lease to `sent_at_ms + span_ms`; an older answer never shortens it.

        `may_hold`: after its end the master may go on while its whole sync-state set has its
        messages.
        """
        if sent_at_ms < self._from_ms:
            return
        self.supported = True
        self.span_ms = span_ms
        self._may_hold = may_hold
        if self.until_ms >= FOREVER:
            self.until_ms = 0
        self.until_ms = max(self.until_ms, sent_at_ms + span_ms)

    def is_supported(self, supported: bool) -> None:
        """Note whether the active controller gives leases."""
        if supported and self.until_ms >= FOREVER:
            self.until_ms = 0
        elif not supported:
            self.until_ms = FOREVER
        self.supported = supported

    def give_back(self) -> None:
        """End the lease now: nothing is acknowledged under it or after it."""
        self.until_ms = 0
        self._may_hold = False

    def drop(self, now: int) -> None:
        """Drop the lease: the monotonic clock stood still for a while, so a lease requested before
        `now` may be over."""
        self._from_ms = now
        if self.until_ms < FOREVER:
            self.give_back()

    @property
    def hold_span_ms(self) -> int:
        """After the lease: how recently (ms) each member must be heard (ADR 0044); 0: stop.

        It is above 0 only in an epoch in which a lease was granted.
        """
        return self.span_ms if self._may_hold and 0 < self.until_ms < FOREVER else 0


# Heartbeats ----------------------------------------------------------------------------------
# When each controller gets a heartbeat, and which controllers know leases.
#
# Every controller gets every heartbeat, so that a new leader knows which brokers live. EpochMQ's
# controllers answer. A controller that has shown that it is a Java controller gets one-way
# heartbeats; from time to time it gets a request again, because it may have been replaced.


BEATS_PER_LEASE = 6
WAITING_MS = 100
TRY_AGAIN_MS = 10_000
UNANSWERED_MAX = 8


class Heartbeats:
    """Sends to all controllers at the same time, each in the form that it understands."""

    def __init__(self, options: MembershipOptions, messages: ControllerRequests) -> None:
        self._options = options
        self._messages = messages
        self._plain_until: dict[str, int] = {}
        self._unanswered: dict[str, int] = {}
        self.due_at_ms = 0

    def due(
        self, controllers: Sequence[str], now: int, lease: Lease, *, waiting: bool
    ) -> list[str]:
        """Return the controllers to send to now. `waiting`: this master has no lease, and serves
        nothing until it has one."""
        if now < self.due_at_ms:
            return []
        interval = self._options.heartbeat_ms
        if lease.span_ms:
            interval = min(interval, lease.span_ms // BEATS_PER_LEASE)
        if waiting:
            interval = min(interval, WAITING_MS)
        self.due_at_ms = now + max(1, interval)
        return [one for one in controllers if self._unanswered.get(one, 0) < UNANSWERED_MAX]

    def all_due(self, now: int) -> None:
        """Send to all controllers at once: something changed."""
        self.due_at_ms = now

    def has_sent_to(self, address: str) -> bool:
        """Return whether any heartbeat was sent to `address` yet."""
        return address in self._unanswered

    def make(self, tag: Tag, broker_id: int, log: LogState, *, resign: bool) -> SendCommand | Tell:
        plain = tag.sent_at_ms < self._plain_until.get(tag.address, 0)
        command = self._messages.heartbeat(broker_id, log, plain=plain, resign=resign)
        count = self._unanswered.setdefault(tag.address, 0)
        if plain:
            return Tell(tag.address, command)
        self._unanswered[tag.address] = count + 1
        return SendCommand(tag.address, command, tag, self._options.heartbeat_timeout_ms)

    def answered(self, tag: Tag, *, ours: bool, now: int) -> None:
        self.failed(tag)
        if ours:
            self._plain_until.pop(tag.address, None)
        else:
            self._plain_until[tag.address] = now + TRY_AGAIN_MS

    def failed(self, tag: Tag) -> None:
        count = self._unanswered.get(tag.address, 0)
        self._unanswered[tag.address] = max(0, count - 1)


# Floor ---------------------------------------------------------------------------------------
# minInSyncReplicas while the broker runs: a lower value applies only after the controllers have
# recorded it.
#
# While the sync-state set is smaller than this number the master acknowledges nothing, so the
# controllers keep members that left the set eligible for election (KIP-966). A master that used a
# lower number than the controllers know would acknowledge alone, while a member without its
# messages may still be elected in a clean election.


class Floor:
    """The wanted minInSyncReplicas, and the highest value that the controllers may know."""

    def __init__(self, value: int) -> None:
        self.wanted = value
        self._known = value
        self._highest = 0
        self._last = (0, value)

    @property
    def in_use(self) -> int:
        """The value to apply: never below a value that the controllers may know."""
        return max(self.wanted, self._highest)

    @property
    def is_known(self) -> bool:
        """Whether the controllers know the wanted value."""
        return self._known == self.wanted

    def asked(self, number: int) -> None:
        """Note that registration `number` carries the wanted value; it may be recorded at any time
        from now on."""
        self._last = number, self.wanted
        self._highest = max(self._highest, self.wanted)

    def recorded(self, number: int) -> None:
        """Note that registration `number` succeeded. Only the last one counts: an older one proves
        nothing."""
        if number == self._last[0]:
            self._known = self._highest = self._last[1]
