"""A simulated broker of a group: the product's store, replication and membership on one host.

It does on the event heap, as simply as possible, what `broker/server/broker_server.py`,
`replication/replication_service.py` and the send handlers do on the loop. Clients of
`sim.group.clients` send requests to it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from epochmq.base.errors import EnvironmentFault, EpochError, OurBug
from epochmq.broker.group.member_options import LogState
from epochmq.broker.group.membership_effects import (
    BecomeFollower,
    BecomeMaster,
    ProposalFailed,
    Switch,
)
from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.replication_effects import (
    AskReplicas,
    Close,
    ProposeSyncStateSet,
    SendData,
)
from epochmq.replication.replication_node import ReplicationNode
from epochmq.store.draft import Appended, Draft
from epochmq.store.epochs import EpochFile
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from sim.controller.member import Member
from sim.kernel.host import Host
from sim.kernel.mutants import REPLICATION_MUTANTS
from sim.kernel.net import Ends, Stream
from sim.kernel.rpc import Session
from sim.kernel.workload import HOST
from sim.kernel.world import MS
from sim.store.store_shell import StoreShell

if TYPE_CHECKING:
    from sim.group.group_world import GroupHistory

REFUSED = 1
"""Response code: nothing was stored."""
OPEN = 10
"""Response code: stored, but the outcome is unknown."""
EMPTY = 19
"""Response code of a read: no message there (yet)."""


class Broker(Member):
    """One broker process; its roles are those of the replication node."""

    def __init__(self, history: "GroupHistory", host: Host) -> None:
        self.history = history
        self.store = history.open_store(host)
        self.epochs = EpochFile(host.disk)
        self.epochs.reconcile(self.store.pointers.start, self.store.pointers.appended)
        self.node: ReplicationNode | None = None
        self.shell = StoreShell(host, self.store, history.sync_us)
        self.links: dict[int, Stream] = {}
        self.uplink: Stream | None = None
        self.unread = bytearray()
        self.dial_at: int | None = None
        self.dialling: object = None
        self._link_number = 0
        host.world.tell("recovered", host, self.store)
        self.furnish(host)
        super().__init__(history.cluster, host, clean_start=history.clean_start(host, self.store))
        self.note_start()
        self.begin()
        self.settle()

    def furnish(self, host: Host) -> None:
        """Make what subclasses own besides, before the first role is taken."""

    def state_line(self) -> str:
        m, p = self.membership, self.store.pointers
        role = type(m.role).__name__.removeprefix("Become") if m.role else "fenced"
        lease = max(0, m.lease.until_ms - self.host.now) if m.is_master else 0
        more = ""
        node = self.node
        if node is not None and node.master is not None:
            s = node.master.in_sync
            more = (
                f" set {sorted(s.committed)}@{s.set_epoch} counted {sorted(s.effective)}"
                f" acks { {i: r.ack for i, r in sorted(s.replicas.items())} }"
                f" fenced {node.master.fenced}"
            )
        elif node is not None and node.follower is not None:
            more = f" {node.follower.state.name} {node.follower.suspended or ''}"
        return (
            f"id {m.broker_id} {role} epoch {self.epoch} view {m.view.epoch}/{m.view.master_id}"
            f" lease {lease} ms | {p} epochs {[tuple(e[:2]) for e in self.epochs.entries]}{more}"
            f" store {self.store.fenced or 'ok'}"
        )

    def log_state(self) -> LogState:
        pointers = self.store.pointers
        return LogState(max(0, self.epochs.last_epoch), pointers.appended, pointers.confirmed)

    # Time ---------------------------------------------------------------------------------------

    def wake(self, now: int) -> int | None:
        self.look_at_clocks()
        self.perform(self.membership.tick(now, self.host.wall))
        if self.store.fenced is not None:
            self._give_up_role()
        if self.node is not None:
            self.node.tick(now, self.host.wall)
            self._maybe_unfence(now)
        self.shell.wake(now)
        if self.dial_at is not None and now >= self.dial_at:
            self._dial()
        self.settle()
        return self.next_deadline()

    def next_deadline(self) -> int | None:
        now = self.host.now
        due = min(self.membership.next_deadline(), self.shell.next_deadline)
        if self.node is not None:
            due = min(due, max(now + 1, self.node.next_deadline(now)))
        return due if self.dial_at is None else min(due, self.dial_at)

    def _maybe_unfence(self, now: int) -> None:
        node = self.node
        if node is not None and node.master is not None and node.master.fenced is not None:
            if node.may_serve(now) and self.store.fenced is None:
                node.unfence(now)

    def _give_up_role(self) -> None:
        """A store that may not be written any more: the process ends, as after a failed sync."""
        self.world.mark("store.fenced")
        host = self.host
        self.world.after(0, f"exit {host.name}", lambda: self.history.exit(host))

    def settle(self) -> None:
        """Carry out what replication wants, send what links have room for, begin a sync."""
        node = self.node
        if node is None:
            self.shell.pump()
            return
        while effects := node.pop_effects():
            for effect in effects:
                if isinstance(effect, SendData):
                    self._write(effect.link, bytes(effect.data))
                elif isinstance(effect, Close):
                    self._cut(effect.link)
                elif isinstance(effect, ProposeSyncStateSet):
                    self.perform(self.membership.propose(effect.proposal, self.host.now))
                elif isinstance(effect, AskReplicas):
                    self.world.mark("covered.asked_replicas")
                    self.perform(self.membership.want_replicas(self.host.now))
                else:
                    self.world.mark("trouble")
        self._send_log(node)
        self.shell.pump()

    # Roles --------------------------------------------------------------------------------------

    def become(self, switch: Switch, done: Callable[[Exception | None], None]) -> None:
        """As the service does: between two roles there is none, while the entry is written."""
        node = self._node()
        self.dialling = self.dial_at = None
        if not node.reshaping and isinstance(switch, BecomeMaster):
            node.check_epoch(switch.epoch)
            node.shed_tail()
            self.settle()
        if node.reshaping:
            node.when_shaped(partial(self._become_now, switch, done))
        else:
            self._become(switch, done)

    def _become_now(self, switch: Switch, done: Callable[[Exception | None], None]) -> None:
        """The log is whole, or it could not be cut."""
        if self._node().reshaping:
            self._node().when_shaped(partial(self._become_now, switch, done))
            return
        try:
            self._become(switch, done)
        except EpochError as error:
            done(error)

    def _become(self, switch: Switch, done: Callable[[Exception | None], None]) -> None:
        node = self._node()
        now, wall = self.host.now, self.host.wall
        self.dialling = self.dial_at = None
        if isinstance(switch, BecomeMaster):
            self.world.mark("covered.became_master")
            if self.membership.view.unclean_epoch == switch.epoch:
                end = self.store.pointers.appended
                self.world.tell("elected_uncleanly", self, switch.epoch, end)
            self.world.tell("became_master", self, switch)
            if self.cluster.safe.epoch_entry_before_data:
                start = node.prepare_master(switch.epoch, now)
                write = partial(self.epochs.append, switch.epoch, start)
                self._blocking(write, partial(self._begin, switch, start, done))
            else:
                node.become_master(switch.epoch, switch.members, switch.set_epoch, now, wall)
                self._began(switch, done)
        else:
            node.become_follower(
                switch.epoch,
                now,
                wall,
                learner=switch.learner,
                unclean_epoch=switch.unclean_epoch,
            )
            self.settle()  # links of the role before are cut
            self.dial_at = now
            done(None)

    def _begin(
        self,
        switch: BecomeMaster,
        start: int,
        done: Callable[[Exception | None], None],
        error: Exception | None,
    ) -> None:
        if error is not None:
            done(error)
            return
        now, wall = self.host.now, self.host.wall
        self._node().start_master(switch.epoch, start, switch.members, switch.set_epoch, now, wall)
        self._began(switch, done)

    def _began(self, switch: BecomeMaster, done: Callable[[Exception | None], None]) -> None:
        self.world.tell("master_began", self, switch)
        self.settle()
        done(None)

    def _node(self) -> ReplicationNode:
        if self.node is None:
            broker_id = self.membership.broker_id
            assert broker_id is not None
            self.node = ReplicationNode(
                self.store,
                self.epochs,
                self.history.replication,
                own_id=broker_id,
                safeguards=self.cluster.safe,
                run_blocking=self._blocking,
                read_clock=lambda: self.host.now,
            )
            self.node.lease(self.may_acknowledge, self.membership.hold_span_ms)
            self.node.registered = frozenset()
            for name in self.cluster.plan.off:
                if name in REPLICATION_MUTANTS:
                    REPLICATION_MUTANTS[name](self.node)
        return self.node

    def _blocking(self, call: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        errors: list[Exception] = []

        def act() -> None:
            try:
                call()
            except EpochError as error:
                errors.append(error)
            self.world.after(self.shell.latency(), "step done", done, self.host)

        def done() -> None:
            then(errors[0] if errors else None)
            self._feed()
            self.settle()

        self.world.after(self.shell.latency(), "step", act, self.host)

    def fenced(self, reason: str) -> None:
        node = self.node
        if node is not None:
            if node.master is not None:
                node.fence(reason)
            else:
                node.leave(self.host.now)

    def set_committed(self, members: frozenset[int], set_epoch: int) -> None:
        if self.node is not None:
            self.node.set_committed(members, set_epoch, self.host.now)

    def replicas_told(self, ids: frozenset[int]) -> None:
        if self.node is not None:
            self.node.replicas_told(ids, self.host.now)

    def change_floor(self, floor: int) -> None:
        """An operator sets minInSyncReplicas."""
        self.perform(self.membership.want_floor(floor, self.host.now))
        self.floor_changed(self.membership.floor.in_use)
        self.settle()

    def floor_changed(self, floor: int) -> None:
        node = self._node()
        node.options = replace(node.options, min_in_sync_replicas=floor)
        if node.master is not None:
            node.master.change_options(node.options)

    def proposal_failed(self, effect: ProposalFailed) -> None:
        if self.node is not None:
            self.node.proposal_failed(effect.proposal, self.host.now, refused=effect.refused)

    # A follower's link --------------------------------------------------------------------------

    def _dial(self) -> None:
        role, self.dial_at = self.membership.role, None
        if not isinstance(role, BecomeFollower) or self.uplink is not None:
            return
        address = role.ha_address or role.master_address
        if not address:
            self.dial_at = self.host.now + self.history.replication.reconnect_ms
            return
        self.dialling = attempt = object()
        name = self.cluster.host_at(address)
        target = self.world.hosts[self.cluster.misled.get((self.host.name, name), name)]
        ends = Ends(partial(self._dialled, attempt), partial(self._not_dialled, attempt))
        self.cluster.net.connect(self.host, target, accept_link, ends)
        timeout = self.history.replication.connect_timeout_ms * MS
        self.world.after(timeout, "dial timeout", partial(self._not_dialled, attempt), self.host)

    def _not_dialled(self, attempt: object) -> None:
        if self.dialling is attempt:
            self.dialling = None
            self.dial_at = self.host.now + self.history.replication.reconnect_ms

    def _dialled(self, attempt: object, stream: Stream) -> None:
        if self.dialling is not attempt:
            stream.close(0)
            return
        self.dialling = None
        self.uplink = stream
        self.unread.clear()
        stream.on_bytes[0] = partial(self._received, stream)
        stream.on_closed[0] = partial(self._uplink_closed, stream)
        assert self.node is not None
        self.node.dialled(self.host.now)
        self.settle()

    def _received(self, stream: Stream, data: bytes) -> None:
        if stream is self.uplink:
            self.unread += data
            self._feed()
            self.settle()

    def _feed(self) -> None:
        """Give what was read, log right into the log's window as the service does."""
        node = self.node
        while self.unread and node is not None and node.reading:
            now, wall = self.host.now, self.host.wall
            try:
                space = node.direct_space()
                if space is not None:
                    count = min(len(space), len(self.unread))
                    space[:count] = self.unread[:count]
                    del self.unread[:count]
                    node.direct_received(count, now, wall)
                else:
                    data = bytes(self.unread)
                    self.unread.clear()
                    node.received(data, now, wall)
            except (EnvironmentFault, EpochError) as error:
                if isinstance(error, OurBug):
                    raise
                node.hung_up(now)
                self._cut(0)

    def _uplink_closed(self, stream: Stream) -> None:
        if stream is self.uplink:
            self._lose_uplink()
            self.settle()

    def _lose_uplink(self) -> None:
        self.uplink = None
        self.unread.clear()
        if self.node is not None:
            self.node.hung_up(self.host.now)
        self.dial_at = self.host.now + self.history.replication.reconnect_ms

    # A master's links ---------------------------------------------------------------------------

    def accept_link(self, stream: Stream) -> None:
        self._link_number += 1
        number = self._link_number
        if self.node is None:
            stream.close(1)
            return
        self.links[number] = stream
        stream.on_bytes[1] = partial(self._link_received, number)
        stream.on_closed[1] = partial(self._link_closed, number)
        self.node.link_accepted(number, stream.hosts[0].name, self.host.now)
        self.settle()

    def _link_received(self, number: int, data: bytes) -> None:
        if number in self.links and self.node is not None:
            self.node.link_received(number, data, self.host.now)
            self.settle()

    def _link_closed(self, number: int) -> None:
        if self.links.pop(number, None) is not None and self.node is not None:
            self.node.link_closed(number, self.host.now)
            self.settle()

    def _send_log(self, node: ReplicationNode) -> None:
        for number, stream in list(self.links.items()):
            while stream.in_flight[0] < self.history.window_bytes:
                chunk = node.next_chunk(number, self.host.now)
                if chunk is None:
                    break
                body = b""
                if chunk.size:
                    body = bytes(self.store.slice(chunk.offset, chunk.size))
                self._write(number, chunk.head + body)

    def _write(self, link: int, data: bytes) -> None:
        if link:
            stream = self.links.get(link)
            if stream is not None:
                stream.send(1, data)
        elif self.uplink is not None:
            self.uplink.send(0, data)

    def _cut(self, link: int) -> None:
        if link:
            stream = self.links.pop(link, None)
            if stream is not None:
                stream.close(1)
        elif self.uplink is not None:
            self.uplink.close(0)
            self.uplink = None
            self.unread.clear()
            if isinstance(self.membership.role, BecomeFollower):
                self.dial_at = self.host.now + self.history.replication.reconnect_ms

    # Requests -----------------------------------------------------------------------------------

    def request(self, command: Command, session: Session) -> None:
        if command.code == RequestCode.SEND_MESSAGE:
            self._send(command, session)
        elif command.code == RequestCode.PULL_MESSAGE:
            self._pull(command, session)
        else:
            super().request(command, session)
        self.settle()

    def _send(self, command: Command, session: Session) -> None:
        now = self.host.now
        node, number = self.node, int((command.ext or {})["number"])
        if node is None or not self.may_serve(now) or node.refusal(now) is not None:
            session.answer(command, Reply(REFUSED))
            return
        placed = self.store.append([self.draft(command, number)], self.host.wall)[0]
        if not isinstance(placed, Appended):
            session.answer(command, Reply(REFUSED))
            return
        assert node.master is not None
        epoch = node.master.in_sync.epoch
        self.world.tell("appended", self, epoch, placed)
        node.appended(now)
        deadline = now + self.history.ack_timeout_ms
        done = partial(self._acked, command, session, placed, epoch)
        node.when_acked(placed.offset + placed.size, deadline, done, now)

    def may_serve(self, now: int) -> bool:
        """Asked of every send (S17)."""
        if not self.membership.is_master or self.store.fenced is not None:
            return False
        if not self.cluster.safe.deadline_recheck_after_pause:
            return True
        return self.may_acknowledge(now) or self.holds(now)

    def holds(self, now: int) -> bool:
        """Whether its whole set is behind it: then it needs no lease (ADR 0044)."""
        return self.membership.is_master and self.node is not None and self.node.holds(now)

    def draft(self, command: Command, number: int) -> Draft:
        ext = command.ext or {}
        key = f"k{number}"
        return Draft(
            ext["topic"],
            int(ext["queue"]),
            bytes(command.body),
            f"KEYS\x01{key}\x02".encode(),
            0,
            (key,),
            born_host=HOST,
        )

    def _acked(
        self, command: Command, session: Session, placed: Appended, epoch: int, status: AckStatus
    ) -> None:
        if status is not AckStatus.ACKED:
            session.answer(command, Reply(OPEN))
            return
        if not self.may_acknowledge(self.host.now):
            self.world.mark("covered.acked_past_lease")
        self.world.tell("acked", self, epoch, placed)
        ext = {
            "queueOffset": str(placed.queue_offset),
            "offset": str(placed.offset),
            "epoch": str(epoch),
        }
        session.answer(command, Reply(0, None, ext))

    def _pull(self, command: Command, session: Session) -> None:
        ext = command.ext or {}
        topic, queue, at = ext["topic"], int(ext["queue"]), int(ext["at"])
        result = self.store.read_queue(topic, queue, at, 16, 1 << 16)
        code = 0 if result.count else EMPTY
        body = b"".join(bytes(chunk) for chunk in result.chunks)
        session.answer(command, Reply(code, None, {"next": str(result.next_offset)}, body))


def accept_link(stream: Stream) -> None:
    """The master's end of a follower's new connection."""
    process = stream.hosts[1].process
    if isinstance(process, Broker):
        process.accept_link(stream)
