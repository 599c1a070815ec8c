"""The sync-state set at its master: its members, the confirmed offset, and changes of the set.

The controller owns the set. The master proposes changes, one at a time. Until it knows the result,
it counts the union of the committed set and of everything that it proposed since (rocketmq#5663,
KIP-497). So a member that may be in the set counts, and so does one that may still be in it: adding
has effect at once, removing only when it is committed. After an answer is lost, the union counts
until a set with a newer `set_epoch` is seen.

`confirmed` is the offset up to which every counted member holds the log. It never goes back within
an epoch (INV-12). A member without a link keeps it where it was (rocketmq#6662).

A follower joins when it holds everything confirmed and the start of this epoch. Under steady load
it is always a little behind. Then `confirmed` waits for it, for some milliseconds at most;
otherwise it might never join.

`confirmed` is always the end of a record. A follower may acknowledge half of a record, be elected,
and cut that half off. The known ends are those of the own appends, one for each turn.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from epochmq.base.errors import check
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import SetProposal

# Follower state ------------------------------------------------------------------------------
# The state that a master keeps for one follower, over all its links.


NEVER = -1
"""No acknowledgement arrived on the present link."""


@dataclass(slots=True)
class FollowerState:
    """The state of one follower. Times are monotonic ms."""

    lost_at_ms: int
    """Since when it has no link; if it never had one, when this master began."""
    caught_up_at_ms: int
    """When it last had the whole log (RIP-44: lastCaughtUpTimeMs)."""
    link: int | None = None
    learner: bool = False
    linked_once: bool = False
    ack: int = NEVER
    """The end of its log as last acknowledged; kept when the link closes, reset by the
    next link."""
    mark_end: int | None = None
    """The end of the own log at an earlier time, `mark_at_ms`. An acknowledgement of it shows that
    the follower is behind by no more than the time since (lastMasterMaxOffset)."""
    mark_at_ms: int = 0
    hold_until_ms: int = -(1 << 40)
    """`confirmed` waits until then for this follower, which is about to join; see `InSync`."""

    def sent(self, end: int, now: int) -> None:
        """Set the mark, if there is none: log was sent while the own log ended at `end`."""
        if self.mark_end is None:
            self.mark_end, self.mark_at_ms = end, now

    def acked(self, ack: int, end: int, now: int) -> bool:
        """Note that its log ends at `ack`, and the own log at `end`. Return whether it reached mark
        or end.
        """
        self.ack = ack
        reached = self.mark_end is not None and ack >= self.mark_end
        if ack >= end:
            self.caught_up_at_ms = now
        elif reached:
            self.caught_up_at_ms = max(self.caught_up_at_ms, self.mark_at_ms)
        if reached:
            self.mark_end = None
        return reached or ack >= end

    def behind(self, end: int, now: int, limit_ms: int) -> bool:
        """Whether it has not been caught up for longer than `limit_ms`.

        If there is nothing to send, it is caught up only when it acknowledged everything (H11).
        """
        return self.ack < end and now - self.caught_up_at_ms > limit_ms

    def lag_ms(self, end: int, now: int) -> int:
        """Return how long ago it last had the whole log; 0 if it has it now."""
        return max(0, now - self.caught_up_at_ms) if self.ack < end else 0


# In sync -------------------------------------------------------------------------------------


_ENDS_MAX = 65_536
"""Known ends of records above `confirmed`. Beyond, some are dropped, and `confirmed` rises in
larger steps."""

_HOLD_AGAIN = 20
"""A follower that did not join in time may hold `confirmed` again after this many times
the hold."""


class InSync:
    """The sync-state set of one master in one epoch."""

    def __init__(
        self,
        own_id: int,
        epoch: int,
        epoch_start: int,
        members: frozenset[int],
        set_epoch: int,
        confirmed: int,
        now: int,
        options: ReplicationOptions,
        safeguards: Safeguards = SAFE,
    ) -> None:
        check(own_id in members, f"INV-08 the master {own_id} is in its set {sorted(members)}")
        self.own_id = own_id
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.committed = members
        self.set_epoch = set_epoch
        self.confirmed = confirmed
        self.replicas: dict[int, FollowerState] = {}
        self.effective = members
        """The members whose acknowledgements count."""
        self.in_flight: SetProposal | None = None
        self._open: list[SetProposal] = []
        self._began_ms = now
        self._options = options
        self._safeguards = safeguards
        self._number = 0
        self._ends: deque[int] = deque()
        self._next_try_ms = 0
        for member in members:
            self._replica(member)

    def _replica(self, follower_id: int) -> FollowerState:
        replica = self.replicas.get(follower_id)
        if replica is None:
            replica = self.replicas[follower_id] = FollowerState(self._began_ms, self._began_ms)
        return replica

    # Links ------------------------------------------------------------------------------------

    def linked(self, follower_id: int, link: int, learner: bool, now: int) -> int | None:
        """Note a handshake of a follower on `link`. Return its link before, which is over."""
        replica = self._replica(follower_id)
        before = replica.link
        if not replica.linked_once and follower_id not in self.committed:
            replica.caught_up_at_ms = now
        replica.link, replica.learner, replica.linked_once = link, learner, True
        replica.ack, replica.mark_end = NEVER, None
        return before if before != link else None

    def unlinked(self, follower_id: int, link: int, now: int) -> None:
        """Note that a link is closed; ignored if the follower has a newer link (S09)."""
        replica = self.replicas.get(follower_id)
        if replica is not None and replica.link == link:
            replica.link, replica.lost_at_ms = None, now
            if follower_id not in self.effective:
                del self.replicas[follower_id]

    # Acknowledgements -------------------------------------------------------------------------

    def appended(self, before: int, end: int, now: int) -> None:
        """Note that the log grew from `before` to `end`; followers with everything up to `before`
        were caught up.
        """
        if len(self._ends) >= _ENDS_MAX:
            self._ends.pop()
        self._ends.append(end)
        for replica in self.replicas.values():
            if replica.ack >= before:
                replica.caught_up_at_ms = now

    def acked(self, follower_id: int, ack: int, end: int, now: int) -> None:
        """Note that a follower's log ends at `ack`, and the own log at `end`."""
        replica = self.replicas[follower_id]
        close = replica.acked(ack, end, now)
        if close and ack < self.confirmed and self._may_join(follower_id, replica):
            hold_ms = self._options.joining_hold_ms
            if now >= replica.hold_until_ms + _HOLD_AGAIN * hold_ms:
                replica.hold_until_ms = now + hold_ms

    def acks(self, members: Iterable[int], own: int) -> list[int]:
        """Return the known ends of these members' logs; the own log ends at `own`."""
        replicas = self.replicas
        return [own if m == self.own_id else replicas[m].ack for m in members]

    def confirm(self, own: int, now: int) -> bool:
        """Raise `confirmed` as far as possible. Return whether it changed.

        It does not change while the set is smaller than the minimum: a replica that left the set
        may be elected then (KIP-966).

        Args:
            own: the end of the own log that is kept (synced, or written).
            now: monotonic ms.
        """
        if len(self.committed) < self._options.min_in_sync_replicas:
            return False
        low = min(self.acks(self.effective, own))
        if low < own:
            low = self._record_end(low)
        if low <= self.confirmed:
            return False
        for follower_id, replica in self.replicas.items():
            if replica.hold_until_ms > now and self._may_join(follower_id, replica):
                return False
        self.confirmed = low
        while self._ends and self._ends[0] <= low:
            self._ends.popleft()
        return True

    def _record_end(self, offset: int) -> int:
        """Return the last known end of a record that is not after `offset`."""
        known = self.confirmed
        if self.epoch_start <= offset:
            known = max(known, self.epoch_start)
        for end in self._ends:
            if end > offset:
                break
            known = end
        return known

    # The set ----------------------------------------------------------------------------------

    def _may_join(self, follower_id: int, replica: FollowerState) -> bool:
        return (
            follower_id not in self.effective
            and replica.link is not None
            and not replica.learner
            and replica.ack >= self.epoch_start
        )

    def _out(self, follower_id: int, end: int, now: int) -> bool:
        """Whether a member should leave the set."""
        replica, options = self.replicas[follower_id], self._options
        if replica.link is not None:
            return replica.learner or replica.behind(end, now, options.not_caught_up_ms)
        grace = options.lost_link_grace_ms if replica.linked_once else options.first_link_grace_ms
        return now - replica.lost_at_ms >= grace

    def desired(self, end: int, now: int) -> frozenset[int]:
        """Return the set as it should be, if the own log ends at `end`."""
        leaving = {m for m in self.committed if m != self.own_id and self._out(m, end, now)}
        joining = {
            follower_id
            for follower_id, replica in self.replicas.items()
            if follower_id not in self.committed
            and replica.link is not None
            and not replica.learner
            and replica.ack >= max(self.epoch_start, self.confirmed)
            and not replica.behind(end, now, self._options.not_caught_up_ms)
        }
        wanted = (self.committed - leaving) | joining
        missing = min(self._options.min_in_sync_replicas, len(self.committed)) - len(wanted)
        if missing > 0:
            # The set does not shrink below the minimum without notice; sends are refused instead. A
            # member without a link cannot stay: the controller refuses a set with a dead member.
            kept = [m for m in leaving if self.replicas[m].link is not None]
            if len(kept) < missing:
                return self.committed
            kept.sort(key=lambda m: (-self.replicas[m].ack, m))
            wanted |= set(kept[:missing])
        return wanted

    def next_proposal(self, end: int, now: int) -> SetProposal | None:
        """Return the next proposal for the controller, or None; only one is open at a time."""
        if self.in_flight is not None or now < self._next_try_ms:
            return None
        wanted = self.desired(end, now)
        if wanted == self.committed and not self._open:
            return None
        # After a proposal without an answer, the committed set itself may be proposed. Any answer
        # with a newer set_epoch shows the result of the older proposal.
        self._number += 1
        proposal = SetProposal(wanted, self.epoch, self.set_epoch, self._number)
        self.in_flight = proposal
        if all(wanted != p.members for p in self._open):
            self._open.append(proposal)
        self._count()
        return proposal

    def set_committed(self, members: frozenset[int], set_epoch: int, now: int) -> bool:
        """Note the controller's set, from an answer or a poll. Return whether it is new.

        It decides all proposals based on an older set: they are part of it, or can never be
        committed.
        """
        if set_epoch <= self.set_epoch or self.own_id not in members:
            return False
        self.committed, self.set_epoch = members, set_epoch
        for member in members:
            if member not in self.replicas:
                self._replica(member).lost_at_ms = now
        self._open = [p for p in self._open if p.set_epoch >= set_epoch]
        if self.in_flight is not None and self.in_flight.set_epoch < set_epoch:
            self.in_flight = None
        self._next_try_ms = now
        self._count()
        return True

    def proposal_failed(self, proposal: SetProposal, now: int, refused: bool = False) -> None:
        """Note that a proposal got no answer and may be committed or not; with `refused` it was
        refused.
        """
        if self.in_flight is not None and self.in_flight.number == proposal.number:
            self.in_flight = None
            self._next_try_ms = now + self._options.proposal_retry_ms
        if refused:
            self._open = [p for p in self._open if p.number != proposal.number]
            self._count()

    def _count(self) -> None:
        """Compute the members whose acknowledgements count from now on."""
        counted = self.committed
        if self._safeguards.union_acks_while_set_changes:
            counted = counted.union(*(p.members for p in self._open))
        self.effective = counted
        for gone in [f for f, r in self.replicas.items() if r.link is None and f not in counted]:
            del self.replicas[gone]

    def change_options(self, options: ReplicationOptions) -> None:
        """Replace the options."""
        self._options = options

    # Statistics -------------------------------------------------------------------------------

    def live_count(self, now: int) -> int:
        """Return the number of committed members with a link, or without one for a short time; plus
        itself.
        """
        return sum(
            member == self.own_id or not self._away(self.replicas[member], now)
            for member in self.committed
        )

    def _away(self, replica: FollowerState, now: int) -> bool:
        options = self._options
        grace = options.lost_link_grace_ms if replica.linked_once else options.first_link_grace_ms
        return replica.link is None and now - replica.lost_at_ms >= grace

    def next_deadline(self) -> int | None:
        """Return when a proposal may be repeated, or None."""
        return self._next_try_ms if self._open and self.in_flight is None else None
