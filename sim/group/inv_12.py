"""INV-12: a new master's log holds every confirmed offset ever acknowledged or shown."""

from epochmq.store.draft import Appended
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import World


class MasterHasAll(Checker):
    """Remembers the end of the last message that was acknowledged or given to a reader."""

    rule = "INV-12"

    def __init__(self) -> None:
        self.used = 0
        self.judged: set[tuple[str, int, int]] = set()

    def acked(self, _broker: Broker, _epoch: int, placed: Appended) -> None:
        self.used = max(self.used, placed.offset + placed.size)

    def shown(self, end: int) -> None:
        self.used = max(self.used, end)

    def elected_uncleanly(self, _broker: Broker, _epoch: int, end: int) -> None:
        self.used = min(self.used, end)

    def observe(self, world: World) -> None:
        """A master without a lease is none yet: what it lacks may still come to light."""
        host = world.touched
        if host is None or not isinstance(host.process, Broker):
            return
        broker, key = host.process, (host.name, host.incarnation, host.process.epoch)
        if key in self.judged or not broker.may_acknowledge(host.now):
            return
        self.judged.add(key)
        end = broker.store.pointers.appended
        if end < self.used:
            text = f"the master of epoch {broker.epoch} ends at {end}"
            raise Violation(self.rule, text, (host.name,), (self.used,))
