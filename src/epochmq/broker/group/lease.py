"""The lease of a master: heartbeats that renew it, and the floor that its elections respect."""

from collections.abc import Sequence

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.controller_requests import ControllerRequests
from epochmq.broker.group.member_options import LogState, MembershipOptions
from epochmq.broker.group.membership_effects import SendCommand, Tag, Tell

# Lease ---------------------------------------------------------------------------------------
# How long a master may go on acknowledging: until the lease that the controllers gave ends.
#
# A lease counts from before the heartbeat was sent, so it ends here no later than the controllers
# think it does, whatever the network did. A controller that knows no leases, which
# is RocketMQ's, fences nobody: then there is no end.


class Lease:
    """The end of the present lease, in monotonic ms; of one master epoch only."""

    def __init__(self) -> None:
        self.until_ms = 0
        self.supported: bool | None = None
        """Whether the controllers give leases; None until one said."""
        self.span_ms = 0
        """Length of the last lease."""
        self._may_hold = False
        """The last lease came with leave to go on past it."""
        self._from_ms = 0
        """What was asked before is no lease."""

    def valid(self, now: int) -> bool:
        return now < self.until_ms

    def begin(self) -> None:
        """A new role or epoch: nothing is granted for it yet."""
        self.until_ms = FOREVER if self.supported is False else 0
        self._may_hold = False

    def granted(self, sent_at_ms: int, span_ms: int, *, may_hold: bool = False) -> None:
        """Longer or not at all: an answer that was overtaken must not shorten it.

        `may_hold`: past its end the master may go on as long as its whole set is behind it.
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
        """The active controller gives leases, or knows none."""
        if supported and self.until_ms >= FOREVER:
            self.until_ms = 0
        elif not supported:
            self.until_ms = FOREVER
        self.supported = supported

    def give_back(self) -> None:
        """Acknowledge nothing more under it, nor past it."""
        self.until_ms = 0
        self._may_hold = False

    def drop(self, now: int) -> None:
        """The clock stood still for a while: a lease asked for before `now` may be over."""
        self._from_ms = now
        if self.until_ms < FOREVER:
            self.give_back()

    @property
    def hold_span_ms(self) -> int:
        """Past its end: how lately each member must have been heard (ADR 0044); 0: it is the end.

        Only in an epoch that a lease was given in.
        """
        return self.span_ms if self._may_hold and 0 < self.until_ms < FOREVER else 0


# Heartbeats ----------------------------------------------------------------------------------
# When which controller hears of us, and which of them knows leases.
#
# Every controller gets every heartbeat, so that a new leader knows who lives. Ours
# answer; a Java controller is told one-way once it has shown that it is one, and is tried again now
# and then, for it may have been replaced.


BEATS_PER_LEASE = 6
WAITING_MS = 100
TRY_AGAIN_MS = 10_000
UNANSWERED_MAX = 8


class Heartbeats:
    """All controllers beat together; what differs is how each is told."""

    def __init__(self, options: MembershipOptions, messages: ControllerRequests) -> None:
        self._options = options
        self._messages = messages
        self._plain_until: dict[str, int] = {}
        self._unanswered: dict[str, int] = {}
        self.due_at_ms = 0

    def due(
        self, controllers: Sequence[str], now: int, lease: Lease, *, waiting: bool
    ) -> list[str]:
        """Whom to tell now. `waiting`: a master that has no lease, and serves nobody meanwhile."""
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
        """Tell everybody at once: something changed."""
        self.due_at_ms = now

    def has_sent_to(self, address: str) -> bool:
        """Whether `address` was told anything yet."""
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
# minInSyncReplicas while the broker runs: the controllers know a lower one before it is used.
#
# While the set is smaller than this number the master acknowledges nothing, so the controllers keep
# who left the set eligible (KIP-966). A master that used a lower number than they know would
# acknowledge alone while somebody without its messages may be elected cleanly.


class Floor:
    """The number that is wanted, and the highest that the controllers may know."""

    def __init__(self, value: int) -> None:
        self.wanted = value
        self._known = value
        self._highest = 0
        self._last = (0, value)

    @property
    def in_use(self) -> int:
        """Never below what the controllers may know."""
        return max(self.wanted, self._highest)

    @property
    def is_known(self) -> bool:
        """Whether the controllers know what is wanted."""
        return self._known == self.wanted

    def asked(self, number: int) -> None:
        """Registration `number` carries what is wanted; it may be recorded at any time now."""
        self._last = number, self.wanted
        self._highest = max(self._highest, self.wanted)

    def recorded(self, number: int) -> None:
        """Registration `number` succeeded. An older one than the last says nothing for sure."""
        if number == self._last[0]:
            self._known = self._highest = self._last[1]
