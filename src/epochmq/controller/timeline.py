"""The latest elections as the leader saw them, and log lines about the group of controllers.

Times are those of this controller's monotonic clock. Answers contain ages, which the caller can
convert to its own clock.
"""

import logging
from collections import deque
from dataclasses import dataclass

from epochmq.base import limits
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.options import ControllerOptions
from epochmq.raft.raft_messages import VotersAndLearners
from epochmq.raft.raft_node import RaftNode


@dataclass(slots=True)
class Failover:
    """One election. Times are monotonic ms; -1 means that it did not happen or was not seen."""

    key: Key
    epoch: int
    master: int
    address: str
    last_heard_ms: int
    """The last heartbeat of the master before."""
    detected_ms: int
    """When the election was decided, because of a dead master or a request."""
    elected_ms: int
    """When the new master was committed."""
    applied_ms: int = -1
    """When the new master reported the new epoch."""


class Timeline:
    """A limited number of elections; they are dropped when another controller leads."""

    def __init__(self) -> None:
        self.failovers: deque[Failover] = deque(maxlen=limits.TIMELINE_MAX)
        self._detected: dict[Key, tuple[int, int]] = {}
        self._open: dict[Key, Failover] = {}

    def clear(self) -> None:
        """Drop everything, because this controller does not lead any more."""
        self.failovers.clear()
        self._detected.clear()
        self._open.clear()

    def detected(self, key: Key, last_heard_ms: int, now: int) -> None:
        """Note that an election is proposed."""
        self._detected[key] = (last_heard_ms, now)

    def elected(self, group: BrokerGroup, now: int) -> None:
        """Note that the election was committed."""
        heard_ms, detected_ms = self._detected.pop(group.key, (-1, now))
        master = group.master_replica()
        if master is None:
            return
        failover = Failover(
            group.key, group.epoch, master.id, master.address, heard_ms, detected_ms, now
        )
        self.failovers.append(failover)
        self._open[group.key] = failover

    def reported(self, key: Key, broker_id: int, epoch: int, now: int) -> int:
        """Note a heartbeat of a master with the last epoch of its log.

        Returns how long (ms) the group had no master, if this is the first heartbeat after an
        election: since the last heartbeat of the master before. Otherwise 0.
        """
        failover = self._open.get(key)
        if failover is None or (failover.master, failover.epoch) != (broker_id, epoch):
            return 0
        failover.applied_ms = now
        del self._open[key]
        begin = failover.last_heard_ms if failover.last_heard_ms >= 0 else failover.detected_ms
        return now - begin


# Group watch ---------------------------------------------------------------------------------
# Log lines about the group of controllers: the leader, the voters, and unconfirmed disks.


log = logging.getLogger(__name__)


class GroupWatch:
    """Compares the state of Raft with what was logged last, logs one line for each change, and
    counts the changes of leaders.
    """

    def __init__(self, options: ControllerOptions, raft: RaftNode) -> None:
        peers = options.peers()
        self._own_id = peers.self_id
        self._addresses = peers.addresses
        self._leader: str | None = None
        self.leader_changes = 0
        """How often another leader than before became known."""
        self._last_leader: str | None = None
        self._members = raft.members
        self._confirmed = raft.confirmed
        if not raft.confirmed:
            log.warning(
                "controller %(controller)s has an empty directory (%(controller_store_path)s), so"
                " it has no vote and waits: for a leader of the group to confirm it, if it lost"
                " its disk; for all of %(addresses)s to be up with empty directories, if the group"
                " is new%(controller_bootstrap)s",
                {
                    "controller": self._own_id,
                    "controller_store_path": options.controller_store_path,
                    "addresses": ", ".join(sorted(self._addresses)),
                    "controller_bootstrap": ""
                    if options.controller_bootstrap
                    else "; then start one of them with --bootstrap (controllerBootstrap=true)",
                },
            )

    def look(self, raft: RaftNode) -> None:
        """Log what changed; call it after each event."""
        if raft.leader_id != self._leader:
            self._leader = raft.leader_id
            if self._leader not in (None, self._last_leader):
                self._last_leader = self._leader
                self.leader_changes += 1
            self._tell_leader(raft)
        if raft.confirmed != self._confirmed:
            self._confirmed = raft.confirmed
            log.info(
                "controller %(controller)s is confirmed as a member of the group",
                {"controller": self._own_id},
            )
        if raft.members is not self._members:
            before, self._members = self._members, raft.members
            self._tell_members(before, raft.members)

    def _tell_leader(self, raft: RaftNode) -> None:
        if self._leader is None:
            log.info("no leader is known in term %(term)d", {"term": raft.term})
        elif self._leader == self._own_id:
            log.info(
                "this controller, %(controller)s, leads the group in term %(term)d",
                {"controller": self._own_id, "term": raft.term},
            )
        else:
            address = self._addresses.get(self._leader, "not configured here")
            log.info(
                "controller %(leader)s (%(address)s) leads in term %(term)d",
                {"leader": self._leader, "address": address, "term": raft.term},
            )

    def _tell_members(self, before: VotersAndLearners, after: VotersAndLearners) -> None:
        for name in after.returning:
            if name not in before.returning:
                log.warning(
                    "controller %(controller)s came back with an empty disk: it has no vote until"
                    " it has caught up",
                    {"controller": name},
                )
        for name in before.returning:
            if name in after.voters:
                log.info(
                    "controller %(controller)s has caught up and votes again", {"controller": name}
                )
