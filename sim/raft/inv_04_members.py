"""INV-04: a snapshot holds the membership as of its index, not one that may never be committed."""

from epochmq.raft.raft_messages import EntryKind, VotersAndLearners, decode_members
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.raft.raft_nodes import raft_of


class SnapshotMembers(Checker):
    """Collects committed changes of any node; compares each snapshot that a node holds."""

    rule = "INV-04"

    def __init__(self) -> None:
        self._changes: dict[int, VotersAndLearners] = {}
        """Index -> membership, of what was committed; 0 for the first one."""
        self._commits: dict[tuple[str, int], int] = {}
        self._snapshots: dict[tuple[str, int], int] = {}

    def observe(self, world: World) -> None:
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None:
            return
        log, who = raft.core.log, (host.name, host.incarnation)
        if 0 not in self._changes and raft.confirmed and log.snapshot.index == 0:
            self._changes[0] = log.snapshot.members
        before = max(self._commits.get(who, 0), log.snapshot.index)
        if log.commit > before:
            for entry in log.after(before, 1 << 40, log.commit - before):
                if entry.kind is EntryKind.CHANGE:
                    self._changes[entry.index] = decode_members(entry.data)
        self._commits[who] = log.commit
        index = log.snapshot.index
        if index == self._snapshots.get(who, 0):
            return
        self._snapshots[who] = index
        wanted = self._changes[max(at for at in self._changes if at <= index)]
        if log.snapshot.members != wanted:
            text = f"the snapshot says {log.snapshot.members}, committed was {wanted}"
            raise Violation(self.rule, text, (host.name,), (index,))
