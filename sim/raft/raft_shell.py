"""Runs a Raft node on the event heap, like `controller_server.py` on the loop, with random
latencies.

At most one sync runs at a time. The call and the report of its end are two events, so that a crash
may come in between. A failed write or sync ends the process.
"""

from collections.abc import Callable
from functools import partial

from epochmq.base.errors import EnvironmentFault, StoreDamaged
from epochmq.raft.raft_node import Effect, RaftNode, SendBytes
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.violation import Violation
from sim.kernel.world import SECOND

VOTE, VOTE_REPLY, HEARTBEAT_REPLY = 1, 2, 6
"""The message types at byte 2 of a message."""


class RaftShell:
    """Runs one node for one process; `act` receives every effect except messages."""

    def __init__(
        self, host: Host, net: Net, raft: RaftNode, act: Callable[[Effect], None], sync_us: int
    ) -> None:
        self.host = host
        self.net = net
        self.raft = raft
        self._act = act
        self._sync_us = sync_us
        self._chance = host.world.streams[f"sync:{host.name}"]
        self._syncing = False

    def wake(self, now: int) -> int:
        if now >= self.raft.next_deadline():
            self.raft.tick(now)
        self.pump()
        return self.raft.next_deadline()

    def hear(self, data: bytes) -> None:
        """Process a received message."""
        if data[2] == VOTE:
            self.host.world.tell("vote_asked", self.host, data)
        try:
            self.raft.receive(data, self.host.now)
        except StoreDamaged as error:
            raise Violation("INV-05", str(error), (self.host.name,)) from error
        self.pump()

    def pump(self) -> None:
        """Carry out the node's effects; call this after each call of the node."""
        world = self.host.world
        for effect in self.raft.pop_effects():
            if type(effect) is not SendBytes:
                self._act(effect)
                continue
            if effect.data[2] == VOTE_REPLY:
                world.tell("voted", self.host, effect.data)
            elif effect.data[2] == HEARTBEAT_REPLY:
                world.tell("beat_answered", self.host)
            target = world.hosts.get(effect.node_id)
            if target is not None:
                self.net.send(self.host, target, "raft", partial(_deliver, target, effect.data))
        if not self._syncing and (call := self.raft.pending_sync()) is not None:
            self._syncing = True
            world.after(self._latency(), "sync", partial(self._sync, call), self.host)

    def _sync(self, call: Callable[[], None]) -> None:
        host, world = self.host, self.host.world
        try:
            call()
        except EnvironmentFault as error:
            world.mark(f"died.{type(error).__name__}")
            world.kill(host)
            world.after(SECOND // 2, "start again", lambda: world.start(host))
            return
        world.after(self._latency(), "synced", self._synced, host)

    def _synced(self) -> None:
        self._syncing = False
        self.raft.synced(self.host.now)
        self.pump()

    def _latency(self) -> int:
        return 1 + int(self._chance.random() * self._sync_us) * self.host.slow


def _deliver(target: Host, data: bytes) -> None:
    process = target.process
    shell = getattr(process, "shell", None)
    if isinstance(shell, RaftShell):
        shell.hear(data)
