"""INV-17: derived files equal a rebuild from the log; queue offsets have no gap and no reuse."""

from epochmq.store.store import Store
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World


class Derived(Checker):
    """After each recovery, and at the end, for each store that runs."""

    rule = "INV-17"

    def recovered(self, host: Host, store: Store) -> None:
        self.check(host, store)

    def finish(self, world: World) -> None:
        for _, host in sorted(world.hosts.items()):
            store = getattr(host.process, "store", None)
            if store is not None and store.fenced is None:
                self.check(host, store)

    def check(self, host: Host, store: Store) -> None:
        problems = store.verify().problems
        if problems:
            raise Violation(self.rule, problems[0], (host.name,))
