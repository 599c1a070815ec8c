"""When which controller hears of us, and which of them knows leases.

Every controller gets every heartbeat, so that a new leader knows who lives. Ours
answer; a Java controller is told one-way once it has shown that it is one, and is tried again now
and then, for it may have been replaced.
"""

from collections.abc import Sequence

from epochmq.broker.membership.controller_requests import ControllerRequests
from epochmq.broker.membership.lease import Lease
from epochmq.broker.membership.membership_effects import SendCommand, Tag, Tell
from epochmq.broker.membership.options import LogState, MembershipOptions

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
