"""INV-02: entries with one index and term are one entry, and so is all before them.

Each entry is compared once a host, together with the term of the one before it: what precedes it
agrees then by induction.
"""

from epochmq.raft.raft_messages import LogEntry
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.raft.raft_nodes import raft_of


class LogMatching(Checker):
    """After every event, what is new in the log of the host that it ran on."""

    rule = "INV-02"

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int | None, LogEntry]] = {}
        self._seen: dict[str, dict[int, int]] = {}
        """host -> index -> term, of what was compared."""

    def disk_lost(self, host: Host) -> None:
        """What it gets from now on is compared again."""
        self._seen.pop(host.name, None)

    def observe(self, world: World) -> None:
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None:
            return
        log = raft.core.log
        seen = self._seen.setdefault(host.name, {})
        index, term = log.last_index, log.last_term
        if seen.get(index) == term:
            return
        first = log.snapshot.index
        while index > first and seen.get(index) != term:
            entry = log.after(index - 1, 0, 1)[0]
            before = log.term_at(index - 1)
            known = self._known.setdefault((index, term), (before, entry))
            if known != (before, entry):
                text = f"two entries {index} of term {term}"
                raise Violation(self.rule, text, (host.name,), (index,))
            seen[index] = term
            index -= 1
            term = before if before is not None else -1
