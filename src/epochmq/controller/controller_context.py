"""The data that the parts of the controller core share: state, liveness, options, effects."""

from collections.abc import Callable
from dataclasses import replace

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.controller import liveness
from epochmq.controller.commands import AnyEvent, encode
from epochmq.controller.controller_effects import Effect, ProposeCommand
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.elect import LogReport
from epochmq.controller.liveness import Liveness, LiveProcess, Times
from epochmq.controller.machine import CommandOutcome, Machine
from epochmq.controller.options import UNCLEAN, ControllerOptions
from epochmq.controller.peer_list import PeerList
from epochmq.controller.request_counts import RequestCounts
from epochmq.controller.timeline import Timeline

LEASE = "leaseMillis"
"""The setting that holds the longest lease that may have been given."""

Then = Callable[[CommandOutcome | None], None]
"""Called when a command was applied; with None if its result is unknown, after the leadership was
lost."""


class ControllerContext:
    """Shared data. `now` is that of the running call; `leader_since` is None while
    another leads.
    """

    def __init__(
        self, machine: Machine, options: ControllerOptions, *, safe: Safeguards = SAFE
    ) -> None:
        self.machine = machine
        self.options = options
        self.peers: PeerList = options.peers()
        self.safe = safe
        self.live = Liveness()
        self.timeline = Timeline()
        self.counts = RequestCounts()
        self.effects: list[Effect] = []
        self.now = 0
        self.term = 0
        self.leader_id: str | None = None
        self.leader_since: int | None = None
        self.leader_until = 0
        """The end of Raft's lease: until then no other controller can lead."""
        self.times = Times(
            options.lease_millis, options.lease_skew_millis, options.broker_timeout_millis
        )
        self._tickets = 0
        self._writes: dict[int, tuple[int, Then]] = {}
        """By ticket: when the command was proposed (monotonic ms), and what gets its result."""

    @property
    def leads(self) -> bool:
        """Whether this controller leads."""
        return self.leader_since is not None

    @property
    def since(self) -> int:
        """When this controller began to lead."""
        return self.now if self.leader_since is None else self.leader_since

    @property
    def leader_address(self) -> str | None:
        """The address of the leader, or None."""
        return None if self.leader_id is None else self.peers.addresses.get(self.leader_id)

    @property
    def unclean_allowed(self) -> bool:
        """Whether unclean elections are allowed, according to the replicated state."""
        return self.machine.settings.get(UNCLEAN) == "true"

    @property
    def agreed_lease_ms(self) -> int:
        """The longest lease that any leader may have given; 0 if none was given yet."""
        return int(self.machine.settings.get(LEASE, "0"))

    @property
    def lease_ms(self) -> int:
        """The lease to give now: the own one, but not longer than all leaders wait for."""
        return min(self.times.lease_ms, self.agreed_lease_ms)

    @property
    def presumed_ms(self) -> int:
        """The lease that every master may have got just before this controller began to lead."""
        return max(self.times.lease_ms, self.agreed_lease_ms)

    def held_until(self, live: LiveProcess | None) -> int:
        """Return until when a master may believe that it holds a lease (monotonic ms)."""
        return liveness.held_until(live, self.since, self.presumed_ms, self.times.skew_ms)

    def ticket(self) -> int:
        """Return a new number by which a result is reported."""
        self._tickets += 1
        return self._tickets

    # Writing ----------------------------------------------------------------------------------

    def write(self, event: AnyEvent, then: Then) -> None:
        """Propose `event`; `then` is called with the result."""
        ticket = self.ticket()
        self._writes[ticket] = self.now, then
        self.effects.append(ProposeCommand(ticket, encode(event)))

    def written(self, ticket: int, outcome: CommandOutcome | None) -> None:
        """Report the result of the command with this ticket; None means unknown."""
        write = self._writes.pop(ticket, None)
        if write is not None:
            proposed_ms, then = write
            self.counts.appended(max(0, self.now - proposed_ms), done=outcome is not None)
            then(outcome)

    def fail_writes(self) -> None:
        """Report all open commands as unknown, because another leader may or may not
        commit them.
        """
        writes, self._writes = self._writes, {}
        for proposed_ms, then in writes.values():
            self.counts.appended(max(0, self.now - proposed_ms), done=False)
            then(None)

    # Reading ----------------------------------------------------------------------------------

    def find(self, cluster: str | None, name: str, session_id: int) -> BrokerGroup | None:
        """Return the group of that name, or None.

        Without a cluster the name must be unique, or belong to the broker of this connection.
        """
        if cluster:
            found = self.machine.groups.get((cluster, name))
            if found is not None:
                return found
        keys = self.machine.by_name.get(name, [])
        if len(keys) == 1 and not cluster:
            return self.machine.groups[keys[0]]
        for live in self.live.of_session(session_id):
            if live.key in keys and not cluster:
                return self.machine.groups[live.key]
        return None

    def dead_at(self, group: BrokerGroup) -> int:
        """Return when the recorded master counts as dead; see `liveness.dead_at`."""
        live = None if group.master is None else self.live.get(group.key, group.master)
        return liveness.dead_at(group, live, self.since, self.held_until(live), self.times)

    def has_master(self, group: BrokerGroup) -> bool:
        """Whether the group has a master that counts as alive."""
        return group.master is not None and self.dead_at(group) > self.now

    def alive(self, group: BrokerGroup, broker_id: int) -> bool:
        """Whether this controller heard of the broker within its timeout."""
        live = self.live.get(group.key, broker_id)
        return live is not None and not live.gone and live.heard_ms + live.timeout_ms > self.now

    def may_live_until(self, group: BrokerGroup, broker_id: int) -> int:
        """Return until when the broker may be alive.

        A new leader may not have heard of it, because only the leader before did. This ends when
        this controller has led for a whole broker timeout.
        """
        live = self.live.get(group.key, broker_id)
        if live is None:
            return self.since + self.times.timeout_ms
        return 0 if live.gone else max(live.heard_ms, self.since) + live.timeout_ms

    def electable(self, key: Key) -> dict[int, LogReport]:
        """Return the logs of the replicas that may be elected now: heard of lately, and not
        leaving.
        """
        return {
            number: live.report
            for number, live in self.live.of_group(key).items()
            if self._ready(live)
        }

    def _ready(self, live: LiveProcess) -> bool:
        if live.closed or live.gone or live.resigned:
            return False
        limit = self.times.lease_ms if live.leased else live.timeout_ms
        return live.heard_ms + limit > self.now

    def change_options(self, options: ControllerOptions) -> None:
        """Replace the options."""
        self.options = replace(options)
