"""INV-03: a leader has every entry that was committed in an earlier term."""

from epochmq.raft.raft_log import RaftLog
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.raft.raft_nodes import raft_of


class LeaderCompleteness(Checker):
    """Collects what any node holds for committed; compares at each election and each commit."""

    rule = "INV-03"

    def __init__(self) -> None:
        self.committed: list[tuple[int, int]] = [(0, 0)]
        """Index -> (term of the entry, term in which it was first seen committed)."""
        self._commits: dict[tuple[str, int], int] = {}
        self._judged: set[int] = set()

    def observe(self, world: World) -> None:
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None:
            return
        core, log = raft.core, raft.core.log
        if core.leader is not None and core.term not in self._judged:
            self._judged.add(core.term)
            start, stop = log.snapshot.index, len(self.committed) - 1
            self._compare(host.name, log, start, stop, core.term)
        who = (host.name, host.incarnation)
        before = self._commits.get(who, 0)
        if log.commit > before:
            self._commits[who] = log.commit
            start = max(before, log.snapshot.index)
            self._compare(host.name, log, start, min(log.commit, len(self.committed) - 1))
            for index in range(len(self.committed), log.commit + 1):
                term = log.term_at(index)
                if term is None:
                    return  # it came with a snapshot; somebody else had it before
                self.committed.append((term, core.term))

    def _compare(
        self, name: str, log: RaftLog, start: int, stop: int, before: int | None = None
    ) -> None:
        """Entries in (start, stop], of those committed in terms before `before`."""
        for index in range(start + 1, stop + 1):
            term, seen_in = self.committed[index]
            if log.term_at(index) != term and (before is None or seen_in < before):
                text = f"entry of term {term} was committed, here is {log.term_at(index)}"
                raise Violation(self.rule, text, (name,), (index,))
