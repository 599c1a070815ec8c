"""The membership part of a simulated broker process: the product's core, its files, its requests.

Subclasses implement the roles: `sim.controller.light_broker` has a log that is only a number,
`sim.group.brokers` the real store and replication.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from epochmq.base.errors import EnvironmentFault, EpochError
from epochmq.broker.group.broker_identity import IdentityFiles
from epochmq.broker.group.group_membership import Membership
from epochmq.broker.group.member_options import LogState, MembershipOptions
from epochmq.broker.group.membership_effects import (
    BecomeFollower,
    BecomeMaster,
    DropTemp,
    Effect,
    Fence,
    FloorChanged,
    ProposalFailed,
    ReplicasTold,
    SaveIdentity,
    SaveKnown,
    SaveTemp,
    SendCommand,
    SetCommitted,
    Switch,
    Tell,
    UncleanRecorded,
)
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from sim.kernel.host import Host
from sim.kernel.rpc import Rpc, Session
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.controller.cluster import Cluster

CLUSTER, GROUP = "C", "g"


class Member(ABC):
    """One process of one broker; each start creates a new object."""

    def __init__(self, cluster: "Cluster", host: Host, *, clean_start: bool) -> None:
        self.cluster = cluster
        self.host = host
        self.world = host.world
        names = self.world.streams["names"]
        self.files = IdentityFiles(host.disk, "", CLUSTER, GROUP)
        self.options = MembershipOptions(
            cluster=CLUSTER,
            broker=GROUP,
            address=cluster.address_of(host.name),
            ha_address=cluster.address_of(host.name),
            controllers=tuple(cluster.address_of(name) for name in cluster.controller_names),
            clean_start=clean_start,
            incarnation=f"{names.getrandbits(64):x}",
            session=f"{names.getrandbits(64):x}",
            min_in_sync_replicas=cluster.minimum,
            learner=host.name in cluster.learners,
            **cluster.member_times,
        )
        self.rpc = Rpc(cluster.net, host)
        self.membership = Membership(
            self.options,
            self.log_state,
            broker_id=self.files.broker_id(),
            temp=self.files.temp(),
            known=self.files.known(),
        )
        self.rpc.on_closed = self._closed

    def note_start(self) -> None:
        """Record an unclean start until the controllers know of it, like `build.note_start`."""
        self.host.last_boot = self.host.power_cuts if self.options.clean_start else None

    # Implemented by subclasses ----------------------------------------------------------------

    @abstractmethod
    def wake(self, now: int) -> int | None: ...

    @abstractmethod
    def state_line(self) -> str: ...

    @abstractmethod
    def log_state(self) -> LogState: ...

    @abstractmethod
    def become(self, switch: Switch, done: Callable[[Exception | None], None]) -> None:
        """Take the role, then call `done` with None, or with the error that prevents it."""

    @abstractmethod
    def fenced(self, reason: str) -> None: ...

    @abstractmethod
    def set_committed(self, members: frozenset[int], set_epoch: int) -> None: ...

    @abstractmethod
    def proposal_failed(self, effect: ProposalFailed) -> None: ...

    def replicas_told(self, ids: frozenset[int]) -> None:  # noqa: B027
        """Hook for subclasses whose followers are asked for their ids."""

    def floor_changed(self, floor: int) -> None:  # noqa: B027
        """Hook for subclasses that count replicas."""

    # Effects of membership ----------------------------------------------------------------------

    def begin(self) -> None:
        self.perform(self.membership.start(self.host.now, self.host.wall))

    def perform(self, effects: list[Effect]) -> None:
        """Carry out effects in order; effects of a step come after the remaining ones."""
        for effect in effects:
            if isinstance(effect, SendCommand):
                self._ask(effect)
            elif isinstance(effect, Tell):
                name = self.cluster.host_at(effect.address)
                self.rpc.call(name, effect.command, MS, lambda _c: None, lambda _lost: None)
            elif isinstance(effect, BecomeMaster | BecomeFollower):
                self._switch(effect)
            elif isinstance(effect, Fence):
                self.fenced(effect.reason)
            elif isinstance(effect, SetCommitted):
                self.set_committed(effect.members, effect.set_epoch)
            elif isinstance(effect, FloorChanged):
                self.floor_changed(effect.floor)
            elif isinstance(effect, ReplicasTold):
                self.replicas_told(effect.ids)
            elif isinstance(effect, UncleanRecorded):
                self.host.last_boot = self.host.power_cuts
            elif isinstance(effect, ProposalFailed):
                self.proposal_failed(effect)
            elif not self._save(effect):
                return

    def _save(self, effect: Effect) -> bool:
        """Write a file and return whether that succeeded; a process without a stored identity
        ends.
        """
        try:
            self._put_file(effect)
        except EnvironmentFault:
            self.world.mark("member.unsaved")
            self.world.exit(self.host)
            return False
        return True

    def _put_file(self, effect: Effect) -> None:
        if isinstance(effect, SaveTemp):
            self.files.save_temp(effect.temp)
        elif isinstance(effect, DropTemp):
            self.files.drop_temp()
        elif isinstance(effect, SaveIdentity):
            self.files.save_id(effect.broker_id)
            self.world.tell("identity_given", self.host.name, effect.broker_id)
        elif isinstance(effect, SaveKnown):
            self.files.save_known(effect.known)
            self.world.tell("known_saved", self.host, effect.known.master_epoch)

    def _ask(self, ask: SendCommand) -> None:
        def answered(command: Command) -> None:
            if open_:
                open_.clear()
                self.perform(self.membership.answered(ask.tag, command, self.host.now))

        def failed(lost: bool) -> None:
            open_.clear()
            self.perform(self.membership.failed(ask.tag, self.host.now, lost=lost))

        open_ = [True]
        name = self.cluster.host_at(ask.address)
        self.rpc.call(name, ask.command, ask.timeout_ms * MS, answered, failed)

    def _switch(self, switch: Switch) -> None:
        def done(error: Exception | None) -> None:
            if error is not None and not isinstance(error, self.cluster.switch_errors):
                raise error
            problem = "" if error is None else f"{type(error).__name__}: {error}"
            ok = error is None
            self.perform(self.membership.role_done(switch, self.host.now, ok=ok, problem=problem))

        try:
            self.become(switch, done)
        except EpochError as error:
            done(error)

    def _closed(self, name: str) -> None:
        if name in self.cluster.controller_names:
            address = self.cluster.address_of(name)
            self.perform(self.membership.closed(address, self.host.now))

    # Requests -----------------------------------------------------------------------------------

    def request(self, command: Command, session: Session) -> None:
        if command.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            session.answer(command, Reply())
            self.perform(self.membership.notified(self.host.now))

    def session_closed(self, session: Session) -> None:  # noqa: B027
        """Do nothing: connections of controllers may close at any time."""

    def look_at_clocks(self) -> None:
        """Check the clocks, as the service does at each tick and before each acknowledgement."""
        self.membership.look_at_clocks(self.host.now, self.host.wall)

    # Read by checkers ---------------------------------------------------------------------------

    def may_acknowledge(self, now: int) -> bool:
        return self.membership.is_master and self.membership.lease.valid(now)

    @property
    def epoch(self) -> int:
        role = self.membership.role
        return role.epoch if role is not None else 0
