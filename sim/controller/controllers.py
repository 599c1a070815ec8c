"""A simulated controller: the product's node on the event heap, and what its service does."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from epochmq.base.errors import EnvironmentFault, PeerError
from epochmq.controller.controller_effects import Dial, Notify, SendReply
from epochmq.controller.options import ControllerOptions
from epochmq.controller.server.controller_node import JOURNAL, ControllerNode
from epochmq.raft.raft_journal import FILE, Journal
from epochmq.raft.raft_messages import VotersAndLearners
from epochmq.raft.raft_node import SendBytes
from epochmq.wire.command import Command
from sim.kernel.disk import SimDisk
from sim.kernel.host import Host
from sim.kernel.net import Ends, Stream
from sim.kernel.rpc import Rpc, Session
from sim.kernel.streams import SeededRng
from sim.kernel.world import MS, SECOND
from sim.raft.raft_shell import VOTE_REPLY

if TYPE_CHECKING:
    from sim.controller.cluster import Cluster

NOTIFY_US = SECOND
DIAL_US = SECOND


def found_group(disk: SimDisk, options: ControllerOptions) -> None:
    """Make `disk` that of a member of a group that was founded already."""
    peers = options.peers()
    journal = Journal(disk, JOURNAL, owner=f"{peers.group}/{peers.self_id}")
    journal.load(VotersAndLearners(tuple(sorted(peers.addresses))))
    journal.close()


class ControllerProcess:
    """One controller process; its first disk is that of an existing group."""

    def __init__(self, cluster: "Cluster", host: Host, options: ControllerOptions) -> None:
        self.cluster = cluster
        self.host = host
        self.world = host.world
        self.rpc = Rpc(cluster.net, host)
        rng = SeededRng(self.world.streams[f"raft:{host.name}"])
        if host.disks_lost == 0 and host.disk.read_file(f"{JOURNAL}/{FILE}") is None:
            found_group(host.disk, options)
        self.node = ControllerNode.open(options, host.disk, rng, host.now, safe=cluster.safe)
        self.raft = self.node.raft
        self._chance = self.world.streams[f"sync:{host.name}"]
        self._sessions: dict[int, Session] = {}
        self._tokens = 0
        self._syncing = False
        self._apply = self.node._apply
        self.node._apply = self._applied  # type: ignore[method-assign]
        machine = self.node.machine
        self.world.tell("machine_restored", host, machine.applied, machine.state_hash())
        self.world.tell("group_applied", host, machine.applied, machine)
        self.pump()

    def _applied(self, index: int, term: int, data: bytes, now: int) -> None:
        self._apply(index, term, data, now)
        machine, tell = self.node.machine, self.world.tell
        tell("machine_applied", self.host, index, term, data, machine.state_hash())
        tell("group_applied", self.host, index, machine)

    def state_line(self) -> str:
        core, raft = self.node.core, self.raft.core
        groups = "; ".join(
            f"{g.name} epoch {g.epoch} master {g.master} set {g.members}@{g.set_epoch}"
            f" candidates {g.candidates} unclean {[r.id for r in g.replicas.values() if r.unclean]}"
            for g in self.node.machine.groups.values()
        )
        live = {
            number: (one.heard_ms - self.host.now, one.report[:2], one.closed, one.gone)
            for group in core.context.live.groups.values()
            for number, one in sorted(group.items())
        }
        return (
            f"{raft.role.name} term {raft.term} leads {core.context.leads} commit {raft.log.commit}"
            f" applied {self.node.machine.applied} | {groups} | live {live}"
        )

    # Time ---------------------------------------------------------------------------------------

    def now(self) -> int:
        """As the service: the node looks at both clocks before anything happens."""
        self.node.look_at_clocks(self.host.now, self.host.wall)
        return self.host.now

    def wake(self, now: int) -> int | None:
        if now >= self.node.next_deadline():
            self.node.tick(self.now())
            self.pump()
        return self.node.next_deadline()

    def next_deadline(self) -> int | None:
        return self.node.next_deadline()

    def pump(self) -> None:
        """Carry out what the node wants; call it after each of its verbs."""
        while effects := self.node.pop_effects():
            for effect in effects:
                if isinstance(effect, SendBytes):
                    self._send(effect)
                elif isinstance(effect, SendReply):
                    session = self._sessions.pop(effect.token, None)
                    if session is not None:
                        session.answer(effect.request, effect.reply)
                elif isinstance(effect, Notify):
                    self._notify(effect)
                else:
                    self._dial(effect)
        if not self._syncing and (call := self.node.pending_sync()) is not None:
            self._syncing = True
            self.world.after(self._latency(), "sync", partial(self._sync, call), self.host)

    def _send(self, effect: SendBytes) -> None:
        if effect.data[2] == VOTE_REPLY:
            self.world.tell("voted", self.host, effect.data)
        target = self.world.hosts[effect.node_id]
        self.cluster.net.send(self.host, target, "raft", partial(receive, target, effect.data))

    def _sync(self, call: Callable[[], None]) -> None:
        try:
            call()
        except EnvironmentFault as error:
            self.world.mark(f"controller.{type(error).__name__}")
            self.world.exit(self.host)
            return
        self.world.after(self._latency(), "synced", self._synced, self.host)

    def _synced(self) -> None:
        self._syncing = False
        self.node.synced(self.now())
        self.pump()

    def _latency(self) -> int:
        return 1 + int(self._chance.random() * 2 * MS) * self.host.slow

    # Requests -----------------------------------------------------------------------------------

    def request(self, command: Command, session: Session) -> None:
        self._tokens += 1
        self._sessions[self._tokens] = session
        self.node.request(self._tokens, command, session.id, self.now())
        self.pump()

    def session_closed(self, session: Session) -> None:
        self.node.channel_closed(session.id, self.now())
        self.pump()

    def _notify(self, notify: Notify) -> None:
        def done(acknowledged: bool) -> None:
            if notify.acknowledged and open_:
                open_.clear()
                self.node.notified(notify.ticket, acknowledged, self.now())
                self.pump()

        open_ = [True]
        name = self.cluster.host_at(notify.address)
        answered, failed = (lambda _c: done(True)), (lambda _lost: done(False))
        self.rpc.call(name, notify.command, NOTIFY_US, answered, failed)

    def _dial(self, dial: Dial) -> None:
        def done(refused: bool, stream: Stream | None = None) -> None:
            if stream is not None:
                stream.close(0)
            if open_:
                open_.clear()
                self.node.dialed(dial.ticket, refused, self.now())
                self.pump()

        open_ = [True]
        target = self.world.hosts[self.cluster.host_at(dial.address)]
        ends = Ends(lambda stream: done(False, stream), lambda: done(True))
        self.cluster.net.connect(self.host, target, lambda _stream: None, ends)
        self.world.after(DIAL_US, "dial timeout", lambda: done(False), self.host)


def receive(target: Host, data: bytes) -> None:
    process = target.process
    if isinstance(process, ControllerProcess):
        try:
            process.node.receive(data, process.now())
        except PeerError:
            process.world.mark("raft.PeerError")
        process.pump()
