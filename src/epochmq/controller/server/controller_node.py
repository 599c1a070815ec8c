"""A whole controller without waiting: Raft, state machine and core.

The service and the simulator use it in the same way: they pass requests, bytes of other
controllers, ticks and results, execute the effects of `pop_effects`, run the call of `pending_sync`
anywhere, and report its end with `synced`.
"""

from collections.abc import Callable

from epochmq.base.jumps import Jumps
from epochmq.base.ports import Disk, Rng
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.controller.config_file import ConfigFile
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_effects import (
    Dial,
    Notify,
    ProposeCommand,
    ReadBarrier,
    SendReply,
)
from epochmq.controller.handlers.controller_request_table import HANDLERS
from epochmq.controller.machine import Machine
from epochmq.controller.options import ControllerOptions
from epochmq.controller.timeline import GroupWatch
from epochmq.raft import raft_node as raft
from epochmq.raft.joining import Configured
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_journal import Journal
from epochmq.raft.raft_messages import VotersAndLearners
from epochmq.raft.raft_node import RaftNode
from epochmq.wire.command import Command

JOURNAL = "raft"

Effect = raft.SendBytes | SendReply | Notify | Dial
"""The effects that the service executes."""


class ControllerNode:
    """One controller. Every `now` is the machine's monotonic time in ms."""

    def __init__(
        self,
        raft_node: RaftNode,
        options: ControllerOptions,
        now: int,
        *,
        config: ConfigFile | None = None,
        journal: Journal | None = None,
        safe: Safeguards = SAFE,
    ) -> None:
        self.raft = raft_node
        self._journal = journal
        self.machine = Machine()
        self.core = ControllerCore(self.machine, options, HANDLERS, config=config, safe=safe)
        self._effects: list[Effect] = []
        self._proposed: dict[int, tuple[int, int]] = {}
        """By index: (term, ticket) of own commands that are not applied yet."""
        self._compacted = 0
        self._watch = GroupWatch(options, raft_node)
        self._jumps = Jumps()
        self._run(now)

    @classmethod
    def open(
        cls,
        options: ControllerOptions,
        disk: Disk,
        rng: Rng,
        now: int,
        *,
        config: ConfigFile | None = None,
        safe: Safeguards = SAFE,
    ) -> "ControllerNode":
        """Open the controller on `disk`, or create it; blocks while the log is read.

        With an empty disk, a member of a group has no vote until the group confirms it.

        Raises:
            StoreDamaged: the log cannot be trusted.
            StoreInUse: another process uses the directory.
        """
        peers = options.peers()
        names = tuple(sorted(peers.addresses))
        alone = len(names) == 1
        journal = Journal(disk, JOURNAL, owner=f"{peers.group}/{peers.self_id}")
        raft_node = RaftNode.open(
            peers.self_id,
            journal,
            VotersAndLearners(names if alone else ()),
            raft_options(options),
            rng,
            now,
            safe,
            None if alone else Configured(names, options.controller_bootstrap),
        )
        return cls(raft_node, options, now, config=config, journal=journal, safe=safe)

    def close(self, *, clean: bool = False) -> None:
        """Release the journal's file and lock; `clean` as in `Journal.close`."""
        if self._journal is not None:
            self._journal.close(clean=clean)

    @property
    def leader_changes(self) -> int:
        """How often another leader of the controllers became known."""
        return self._watch.leader_changes

    # Input ------------------------------------------------------------------------------------

    def look_at_clocks(self, now: int, wall: int) -> bool:
        """Compare both clocks before each event. Return whether time passed that was not counted.

        Then this controller gives no guarantees until a majority confirmed that it still leads.
        """
        if not self._jumps.look(now, wall):
            return False
        self.raft.clock_stood_still(now)
        self._look_at_raft()
        self._run(now)
        return True

    def request(self, token: int, request: Command, session_id: int, now: int) -> None:
        """Handle a request; a `SendReply` with this token follows, for one-way requests as well."""
        self._look_at_raft()
        self.core.request(token, request, session_id, now)
        self._run(now)

    def receive(self, data: bytes, now: int, sender: str | None = None) -> None:
        """Handle bytes of another controller. Raises `PeerError` if they are invalid or of another
        node.
        """
        self.raft.receive(data, now, sender)
        self._run(now)

    def channel_closed(self, session_id: int, now: int) -> None:
        """Note that a connection closed."""
        self.core.channel_closed(session_id, now)
        self._run(now)

    def dialed(self, ticket: int, refused: bool, now: int) -> None:
        """Handle the end of a `Dial`; `refused` only if the port refused."""
        self.core.dialed(ticket, refused, now)
        self._run(now)

    def notified(self, ticket: int, acknowledged: bool, now: int) -> None:
        """Handle the end of a `Notify` with acknowledgement."""
        self.core.notified(ticket, acknowledged, now)
        self._run(now)

    def tick(self, now: int) -> None:
        """Do what is due; call it at `next_deadline`. An earlier call does no harm."""
        self.raft.tick(now)
        self._run(now)
        self._look_at_raft()
        self.core.tick(now)
        self._run(now)

    def next_deadline(self) -> int:
        """Return when `tick` must be called (monotonic ms)."""
        return min(self.raft.next_deadline(), self.core.next_deadline())

    def pending_sync(self) -> Callable[[], None] | None:
        """See `RaftNode.pending_sync`: if the call raises an error, the controller must stop."""
        return self.raft.pending_sync()

    def synced(self, now: int) -> None:
        """Note that the call of `pending_sync` has finished."""
        self.raft.synced(now)
        self._run(now)

    def pop_effects(self) -> list[Effect]:
        """Return the effects to execute now, in order."""
        effects, self._effects = self._effects, []
        return effects

    def statistics(self) -> dict[str, object]:
        """Return the state of Raft and of the core."""
        return {**self.raft.statistics(), **self.core.statistics()}

    # Inside -----------------------------------------------------------------------------------

    def _run(self, now: int) -> None:
        """Pass effects between Raft and the core until there are none."""
        while True:
            from_raft = self.raft.pop_effects()
            if from_raft:
                self._look_at_raft()
                for effect in from_raft:
                    self._of_raft(effect, now)
            from_core = self.core.pop_effects()
            for wanted in from_core:
                if isinstance(wanted, ProposeCommand):
                    self._propose(wanted, now)
                elif isinstance(wanted, ReadBarrier):
                    self.raft.read_index(wanted.ticket, now)
                else:
                    self._effects.append(wanted)
            if not from_raft and not from_core:
                break
        self._watch.look(self.raft)
        self._compact()

    def _look_at_raft(self) -> None:
        """Read the leader and the end of its lease; done again for each event."""
        self.core.context.leader_id = self.raft.leader_id
        self.core.context.leader_until = self.raft.lease_until_ms

    def _of_raft(self, effect: raft.Effect, now: int) -> None:
        match effect:
            case raft.SendBytes():
                self._effects.append(effect)
            case raft.Apply(index, term, data):
                self._apply(index, term, data, now)
            case raft.Restore(index, snapshot):
                self.machine.restore(index, snapshot)
                self._compacted = index
            case raft.ReadReady(token):
                self.core.read_ready(token, now)
            case raft.ReadFailed(token):
                self.core.read_failed(token, now)
            case raft.BecameLeader(term):
                self.core.became_leader(term, now)
            case raft.LostLeadership():
                self._proposed.clear()
                self.core.lost_leadership(now)

    def _apply(self, index: int, term: int, data: bytes, now: int) -> None:
        outcome = self.machine.apply(index, data)
        proposed_in, ticket = self._proposed.pop(index, (0, 0))
        if not ticket:
            return
        if proposed_in == term:
            self.core.applied(ticket, outcome, now)
        else:
            self.core.dropped(ticket, now)

    def _propose(self, wanted: ProposeCommand, now: int) -> None:
        index = self.raft.propose(wanted.data)
        if index is None:
            self.core.dropped(wanted.ticket, now)
        else:
            self._proposed[index] = self.raft.term, wanted.ticket

    def _compact(self) -> None:
        applied = self.machine.applied
        if applied - self._compacted >= self.core.context.options.snapshot_entries:
            self._compacted = applied
            self.raft.compact(applied, self.machine.snapshot())


def raft_options(options: ControllerOptions) -> RaftOptions:
    """Return Raft's times; its lease ends 2/5 of an election timeout before another can lead."""
    return RaftOptions(
        election_timeout_ms=options.election_timeout_millis,
        heartbeat_ms=options.raft_heartbeat_millis,
        lease_margin_ms=2 * options.election_timeout_millis // 5,
    )
