"""The acknowledgement policy: how many replicas must hold a message before a send is answered.

`position` is the offset up to which the policy is fulfilled. It is computed once for each
acknowledgement of a follower. All sends up to it are answered in order.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum

from epochmq.base.limits import ACK_WAITS_MAX
from epochmq.replication.in_sync import InSync
from epochmq.replication.options import ReplicationOptions


class AckStatus(Enum):
    """The result of a send that waits for replicas."""

    ACKED = "acknowledged by as many replicas as the options say"
    TIMEOUT = "stored, but not acknowledged in time"
    NOT_ENOUGH = "fewer replicas than minInSyncReplicas; nothing was stored"
    FENCED = "this broker may not acknowledge any more"


Done = Callable[[AckStatus], None]

NOTHING = -1
"""No offset is acknowledged."""


def needed(options: ReplicationOptions, members: int) -> int:
    """Return how many of `members` replicas, including the master, must hold a message."""
    if options.all_ack:
        return members
    if options.auto_in_sync_replicas:
        return max(min(options.in_sync_replicas, members), options.min_in_sync_replicas, 1)
    return max(options.in_sync_replicas, 1)


def position(in_sync: InSync, own: int, options: ReplicationOptions) -> int:
    """Return the offset up to which enough members hold the log.

    Only members count, each once: data that only a learner or a follower outside of the set holds
    is lost with the master.

    Args:
        in_sync: the sync-state set.
        own: end of the master's own log in bytes.
        options: the policy.

    Returns:
        The offset in bytes, or `NOTHING` while the set is smaller than the minimum.
    """
    if len(in_sync.committed) < options.min_in_sync_replicas:
        return NOTHING
    acks = in_sync.acks(in_sync.effective, own)
    count = needed(options, len(acks))
    if count == len(acks):
        return min(acks)
    if count > len(acks):
        return NOTHING
    acks.sort(reverse=True)
    return min(own, acks[count - 1])


class WaitingSends:
    """Groups of sends that wait for replicas, by the offset of their end, in the order
    of the log.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, Done]] = deque()
        self.released = 0
        self.timed_out = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """Call `done` once, when `offset` is acknowledged or the deadline is over.

        Offsets must come in the order of the log. If too many sends wait, `done` gets TIMEOUT at
        once.

        Args:
            offset: end of the sends in bytes.
            deadline_at_ms: monotonic deadline.
            done: called with the result.
        """
        if len(self._waiting) >= ACK_WAITS_MAX:
            self.timed_out += 1
            done(AckStatus.TIMEOUT)
        else:
            self._waiting.append((offset, deadline_at_ms, done))

    def is_first(self, offset: int) -> bool:
        """Whether no send waits for a smaller offset, so that a repeated request for an old offset
        need not wait behind newer ones.
        """
        return not self._waiting or offset <= self._waiting[0][0]

    def release(self, position: int) -> None:
        """Answer all sends up to `position`, which enough replicas hold."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            self.released += 1
            waiting.popleft()[2](AckStatus.ACKED)

    def expire(self, now: int) -> None:
        """Answer the sends whose deadline is over; deadlines rise nearly as offsets do."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            self.timed_out += 1
            waiting.popleft()[2](AckStatus.TIMEOUT)

    def fail(self, status: AckStatus) -> None:
        """Answer all waiting sends with `status`."""
        waiting, self._waiting = self._waiting, deque()
        for _offset, _deadline, done in waiting:
            done(status)

    @property
    def first_deadline(self) -> int | None:
        """The deadline of the first waiting send, or None."""
        return self._waiting[0][1] if self._waiting else None
