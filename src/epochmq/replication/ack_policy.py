"""When a send is acknowledged: how many replicas must hold it, and who waits for that.

`position` is the offset up to which the policy is satisfied; it is computed once for each
acknowledgement that comes, and everything that waits below it is released in order.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum

from epochmq.base.limits import ACK_WAITS_MAX
from epochmq.replication.in_sync import InSync
from epochmq.replication.options import ReplicationOptions


class AckStatus(Enum):
    """What becomes of those who wait."""

    ACKED = "acknowledged by as many replicas as the options say"
    TIMEOUT = "stored, but not acknowledged in time"
    NOT_ENOUGH = "fewer replicas than minInSyncReplicas; nothing was stored"
    FENCED = "this broker may not acknowledge any more"


Done = Callable[[AckStatus], None]

NOTHING = -1
"""No offset is acknowledged."""


def needed(options: ReplicationOptions, members: int) -> int:
    """How many replicas of a set of `members` must hold a message, the master among them."""
    if options.all_ack:
        return members
    if options.auto_in_sync_replicas:
        return max(min(options.in_sync_replicas, members), options.min_in_sync_replicas, 1)
    return max(options.in_sync_replicas, 1)


def position(in_sync: InSync, own: int, options: ReplicationOptions) -> int:
    """Up to where enough members hold the log; `NOTHING` while the set is below the minimum.

    Distinct members count, and only members: what only a learner or a follower outside of the set
    holds is lost when the master is.
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
    """Groups of sends, by the offset where each ends, in the log's order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, Done]] = deque()
        self.released = 0
        self.timed_out = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """Call `done` once; offsets come in the log's order."""
        if len(self._waiting) >= ACK_WAITS_MAX:
            self.timed_out += 1
            done(AckStatus.TIMEOUT)
        else:
            self._waiting.append((offset, deadline_at_ms, done))

    def is_first(self, offset: int) -> bool:
        """Whether nobody waits for less: who asks again for an old offset need not queue up behind
        those whose own are not held yet."""
        return not self._waiting or offset <= self._waiting[0][0]

    def release(self, position: int) -> None:
        """Everything up to `position` is held by enough replicas."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            self.released += 1
            waiting.popleft()[2](AckStatus.ACKED)

    def expire(self, now: int) -> None:
        """Whose deadline has passed learns it; deadlines rise as offsets do, or nearly so."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            self.timed_out += 1
            waiting.popleft()[2](AckStatus.TIMEOUT)

    def fail(self, status: AckStatus) -> None:
        """All that wait get `status`."""
        waiting, self._waiting = self._waiting, deque()
        for _offset, _deadline, done in waiting:
            done(status)

    @property
    def first_deadline(self) -> int | None:
        return self._waiting[0][1] if self._waiting else None
