"""INV-11: start <= dispatched <= confirmed <= appended, and synced <= appended."""

from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import World


class PointerOrder(Checker):
    """After every event, on the host that it ran on."""

    rule = "INV-11"

    def observe(self, world: World) -> None:
        host = world.touched
        store = getattr(host.process, "store", None) if host is not None else None
        if store is None:
            return
        p = store.pointers
        if not p.start <= p.dispatched <= p.confirmed <= p.appended or p.synced > p.appended:
            raise Violation(self.rule, str(p), (host.name,) if host else ())
