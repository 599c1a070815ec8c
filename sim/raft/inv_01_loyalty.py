"""INV-01: who answered a leader's heartbeat votes for nobody else for an election timeout.

A leader's lease rests on this promise, so it holds across restarts too. A vote that the leader
itself asked for, by handing over, is excused.
"""

from epochmq.raft.raft_messages import Vote, decode
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import MS, World
from sim.raft.raft_nodes import raft_of


class Loyalty(Checker):
    """After every event, on the host that it ran on."""

    rule = "INV-01"

    def __init__(self, election_timeout_ms: int) -> None:
        # Clocks of hosts drift by 2 per cent, and count whole milliseconds.
        self._promise_us = int(0.95 * election_timeout_ms * MS) - 2 * MS
        self._loyal: dict[tuple[str, int], int] = {}
        """(host, incarnation) -> until when it says it is loyal"""
        self._heard: dict[str, int] = {}
        """Host -> when it heard a leader last, us"""
        self._promised: dict[str, int] = {}
        """The same, of what it answered."""
        self._votes: dict[str, set[tuple[int, str]]] = {}
        """Host -> (term, candidate). A restart may bring an earlier one of them back."""
        self._handed_over: set[tuple[str, int]] = set()
        """(candidate, term) of elections that leaders asked for"""

    def vote_asked(self, _host: Host, data: bytes) -> None:
        vote = decode(data)
        if isinstance(vote, Vote) and vote.transfer:
            self._handed_over.add((vote.sender, vote.term))

    def beat_answered(self, host: Host) -> None:
        self._promised[host.name] = self._heard.get(host.name, 0)

    def disk_lost(self, host: Host) -> None:
        """It has no vote until the group has confirmed it."""
        self._promised.pop(host.name, None)

    def observe(self, world: World) -> None:
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None:
            return
        core, who = raft.core, (host.name, host.incarnation)
        loyal = core._timer._loyal_until
        if loyal > self._loyal.get(who, loyal):
            self._heard[host.name] = world.time_us
        self._loyal[who] = loyal
        if core.vote in (None, host.name):
            return
        votes = self._votes.setdefault(host.name, set())
        if (core.term, core.vote) in votes:
            return
        votes.add((core.term, core.vote))
        promised = self._promised.get(host.name)
        if promised is None:
            return
        elapsed_us = world.time_us - promised
        if elapsed_us < self._promise_us and (core.vote, core.term) not in self._handed_over:
            text = f"voted for {core.vote} {elapsed_us // MS} ms after it answered a leader"
            raise Violation(self.rule, text, (host.name,))
