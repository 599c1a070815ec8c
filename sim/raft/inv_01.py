"""INV-01: at most one leader a term; and while a lease holds, nobody leads a later term."""

from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.raft.raft_nodes import raft_of


class OneLeader(Checker):
    """After every event, on the host that it ran on."""

    rule = "INV-01"

    def __init__(self) -> None:
        self.leaders: dict[int, tuple[str, int]] = {}
        """term -> (host, incarnation)"""

    def observe(self, world: World) -> None:
        host = world.touched
        raft = raft_of(host)
        if host is None or raft is None or raft.core.leader is None:
            return
        term, who = raft.core.term, (host.name, host.incarnation)
        known = self.leaders.get(term)
        if known is None:
            self.leaders[term] = who
            world.mark("covered.elected")
            self._check_leases(world, host, term)
        elif known != who:
            raise Violation(self.rule, f"two leaders of term {term}", (known[0], host.name))

    def _check_leases(self, world: World, new: Host, term: int) -> None:
        for _, host in sorted(world.hosts.items()):
            raft = raft_of(host)
            if raft is None or host is new or raft.core.term >= term:
                continue
            if host.now < raft.lease_until_ms:
                text = f"elected in term {term} while a lease of term {raft.term} holds"
                raise Violation(self.rule, text, (new.name, host.name))
