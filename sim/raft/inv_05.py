"""INV-05: term, vote, commit and applied never go back on a node, across restarts too.

A term or vote counts from when somebody was told. The commit index is volatile in Raft: across a
restart the log still has everything that was applied here, which is what the rule is for.
"""

from epochmq.raft.raft_messages import VoteReply, decode
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.raft.raft_nodes import raft_of


class NeverBack(Checker):
    """After every event, on the host that it ran on."""

    rule = "INV-05"

    def __init__(self) -> None:
        self._votes: dict[tuple[str, int], str] = {}
        self._told: dict[str, int] = {}
        """host -> highest term in which it voted"""
        self._seen: dict[str, tuple[int, int, int, int]] = {}
        """host -> (incarnation, term, commit, applied)"""
        self._applied: dict[str, int] = {}
        """host -> the highest index it ever applied"""

    def disk_lost(self, host: Host) -> None:
        """What it promised is forgotten: the group must not rely on it."""
        for book in (self._told, self._seen, self._applied):
            book.pop(host.name, None)
        self._votes = {key: vote for key, vote in self._votes.items() if key[0] != host.name}

    def voted(self, host: Host, data: bytes) -> None:
        reply = decode(data)
        assert isinstance(reply, VoteReply)
        if reply.pre or not reply.granted:
            return
        known = self._votes.setdefault((host.name, reply.term), reply.to)
        if known != reply.to:
            text = f"votes for {known} and {reply.to} in term {reply.term}"
            raise Violation(self.rule, text, (host.name,))
        self._told[host.name] = max(self._told.get(host.name, 0), reply.term)

    def observe(self, world: World) -> None:
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None:
            return
        core = raft.core
        now = (host.incarnation, core.term, core.log.commit, raft.applied_index)
        before = self._seen.get(host.name)
        if before == now:
            return
        if core.term < self._told.get(host.name, 0):
            raise Violation(self.rule, "a term that it voted in is forgotten", (host.name,))
        if before is None or before[0] != now[0]:
            self._judge_restart(host.name, core.log.last_index)
            known = self._votes.get((host.name, core.term))
            if known is not None and core.vote != known:
                text = f"its vote for {known} in term {core.term} is forgotten: {core.vote}"
                raise Violation(self.rule, text, (host.name,))
        elif any(old > new for old, new in zip(before, now, strict=True)):
            raise Violation(self.rule, f"{before} -> {now}", (host.name,))
        self._seen[host.name] = now
        self._applied[host.name] = max(self._applied.get(host.name, 0), now[3])

    def _judge_restart(self, name: str, last: int) -> None:
        applied = self._applied.get(name, 0)
        if last < applied:
            text = f"{applied} was applied, the log now ends at {last}"
            raise Violation(self.rule, text, (name,), (applied,))
