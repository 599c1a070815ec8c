"""A simulated broker without a log: its membership is the product's, its log is only a number.

It is used in the world of controllers: the master's log grows, followers catch up after a while,
and the sync-state set is proposed and changed at random, but correctly: a follower joins it only
with the whole log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from epochmq.broker.group.member_options import LogState
from epochmq.broker.group.membership_effects import BecomeMaster, ProposalFailed, Switch
from epochmq.store.epochs import StaleEpoch
from sim.controller.member import Member
from sim.kernel.host import Host

if TYPE_CHECKING:
    from sim.controller.cluster import Cluster

STEP_MS = 60
GRACE_MS = 400


@dataclass(frozen=True)
class LightProposal:
    """Has the attributes of a `SetProposal` that membership uses."""

    members: frozenset[int]
    epoch: int
    set_epoch: int


class LightBroker(Member):
    """Stores (epoch, end) on disk; acknowledges no sends, but reports when it would be allowed
    to.
    """

    def __init__(self, cluster: "Cluster", host: Host) -> None:
        saved = host.disk.read_file("log")
        self.log = (0, 0)
        if saved:
            self.log = msgspec.json.decode(saved, type=tuple[int, int])
        self.members: frozenset[int] = frozenset()
        self.set_epoch = 0
        self.seen: dict[int, tuple[int, int]] = {}
        """Follower's id -> (end of its log, when it was reported)."""
        self.step_at = host.now
        super().__init__(cluster, host, clean_start=host.last_boot == host.power_cuts)
        self.note_start()
        self.begin()

    def state_line(self) -> str:
        m = self.membership
        view = (m.view.epoch, m.view.master_id, m.view.set_epoch)
        lease = m.lease.until_ms - self.host.now if m.is_master else 0
        return (
            f"id {m.broker_id} role {m.role} view {view}"
            f" log {self.log} members {sorted(self.members)} lease {lease} ms"
        )

    def log_state(self) -> LogState:
        return LogState(self.log[0], self.log[1], 0)

    # Time ---------------------------------------------------------------------------------------

    def wake(self, now: int) -> int | None:
        self.perform(self.membership.tick(now, self.host.wall))
        if now >= self.step_at:
            self.step_at = now + STEP_MS
            self.step(now)
        return self.next_deadline()

    def next_deadline(self) -> int | None:
        return min(self.membership.next_deadline(), self.step_at)

    # Simulated log --------------------------------------------------------------------------------

    def save(self) -> None:
        self.host.disk.write_file("log", msgspec.json.encode(self.log))

    def step(self, now: int) -> None:
        """Append as master and check the sync-state set; fetch as follower."""
        if self.may_acknowledge(now):
            self.world.tell("may_acknowledge", self)
            self.log = (self.epoch, self.log[1] + self.world.streams["log"].randrange(3))
            self.save()
            self._look_at_set(now)
        elif self.membership.role is not None and not self.membership.is_master:
            self._fetch()

    def _look_at_set(self, now: int) -> None:
        own = self.membership.broker_id
        assert own is not None
        wanted = {own}
        for follower, (end, heard) in sorted(self.seen.items()):
            near = now - heard < GRACE_MS
            if near and (follower in self.members or end >= self.log[1] - 2):
                wanted.add(follower)
        if wanted != self.members and self.world.streams["log"].randrange(3) == 0:
            proposal = LightProposal(frozenset(wanted), self.epoch, self.set_epoch)
            self.perform(self.membership.propose(proposal, now))

    def _fetch(self) -> None:
        """Fetch the master's log over the network; the request reports the end of our log."""
        role = self.membership.role
        assert role is not None
        assert not isinstance(role, BecomeMaster)
        master = self.world.hosts[self.cluster.host_at(role.master_address)]
        mine = (self.membership.broker_id or 0, self.log[1], self.epoch)
        self.cluster.net.send(self.host, master, "fetch", lambda: answer(master, self.host, mine))

    def become(self, switch: Switch, done: Callable[[Exception | None], None]) -> None:
        if switch.epoch < self.log[0]:
            raise StaleEpoch(f"epoch {switch.epoch} is older than the log's")
        self.seen.clear()
        if isinstance(switch, BecomeMaster):
            self.world.tell("became_master", self, switch)
            self.members, self.set_epoch = switch.members, switch.set_epoch
            self.log = (switch.epoch, self.log[1])
            self.save()
        done(None)

    def fenced(self, reason: str) -> None:
        self.members = frozenset()

    def set_committed(self, members: frozenset[int], set_epoch: int) -> None:
        self.members, self.set_epoch = members, set_epoch

    def proposal_failed(self, effect: ProposalFailed) -> None:
        """Do nothing: the next check proposes again."""


def answer(master: Host, follower: Host, mine: tuple[int, int, int]) -> None:
    """Run at the master: record the follower and send the log's end."""
    process = master.process
    if isinstance(process, LightBroker) and process.may_acknowledge(master.now):
        number, end, epoch = mine
        if epoch == process.epoch:
            process.seen[number] = (end, master.now)
            log = process.log
            process.cluster.net.send(master, follower, "log", lambda: take(follower, log))


def take(follower: Host, log: tuple[int, int]) -> None:
    process = follower.process
    if isinstance(process, LightBroker) and not process.membership.is_master:
        if log >= process.log and log[0] >= process.epoch:
            process.log = log
            process.save()
