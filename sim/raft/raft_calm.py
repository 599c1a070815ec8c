"""INV-35 for Raft: who is cut off neither raises the term nor goes on leading.

A node that hears nobody cannot win a pre-vote, so its term stands still; a leader that hears no
majority steps down. Both are judged once everything that was under way has arrived; the time in
which a process stands still does not count, as it cannot notice anything.
"""

from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World
from sim.raft.raft_nodes import raft_of

GRACE_US = SECOND + SECOND // 2
"""Longer than any message travels."""


class Calm(Checker):
    """After every event, on the host that it ran on."""

    rule = "INV-35"

    def __init__(self, net: Net, election_timeout_ms: int) -> None:
        self._net = net
        self._silence_max_us = GRACE_US + 3 * election_timeout_ms * MS
        self._deaf: dict[str, tuple[int, int]] = {}
        """Host -> (incarnation, since when no majority reaches it)"""
        self._alone: dict[str, tuple[int, int, int]] = {}
        """Host -> (incarnation, since when nobody reaches it, its term after grace or -1)"""

    def observe(self, world: World) -> None:
        if self._net.is_whole:
            self._deaf.clear()
            self._alone.clear()
            return
        for host in world.hosts.values():
            if host.paused:
                self._forget(host)
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None:
            return
        if host.paused or not self._is_deaf(host, raft.core.members.voters):
            self._forget(host)
            return
        fresh = (host.incarnation, world.time_us)
        found = self._deaf.get(host.name, fresh)
        since = self._deaf[host.name] = found if found[0] == host.incarnation else fresh
        silent_us = world.time_us - since[1]
        if silent_us > self._silence_max_us and raft.core.leader is not None:
            text = f"hears no majority for {silent_us // MS} ms, and leads"
            raise Violation(self.rule, text, (host.name,))
        self._judge_term(world, host, raft.core.term)

    def _forget(self, host: Host) -> None:
        self._deaf.pop(host.name, None)
        self._alone.pop(host.name, None)

    def _judge_term(self, world: World, host: Host, term: int) -> None:
        if not self._hears_nobody(world, host):
            self._alone.pop(host.name, None)
            return
        fresh = (host.incarnation, world.time_us, -1)
        incarnation, since, before = self._alone.get(host.name, fresh)
        if incarnation != host.incarnation:
            since, before = fresh[1:]
        alone_us = world.time_us - since
        if before < 0 and alone_us > GRACE_US:
            before = term
        if 0 <= before < term:
            text = f"cut off for {alone_us // MS} ms, and raised the term"
            raise Violation(self.rule, text, (host.name,))
        self._alone[host.name] = (host.incarnation, since, before)

    def _hears_nobody(self, world: World, host: Host) -> bool:
        others = (name for name in world.hosts if name != host.name)
        return not any(self._net.passes(name, host.name) for name in others)

    def _is_deaf(self, host: Host, voters: tuple[str, ...]) -> bool:
        """No majority of the voters can reach it."""
        reach = [name for name in voters if name == host.name or self._net.passes(name, host.name)]
        return len(reach) < len(voters) // 2 + 1
