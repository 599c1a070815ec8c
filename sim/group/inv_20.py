"""INV-20 to INV-24 at the end: every replica gives every reader what was acknowledged and shown."""

from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.oracle import Oracle
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, queue_offset_of, read_all
from sim.kernel.world import World


class Drain(Checker):
    """Reads every queue of every replica to its end, and asks the clients' book."""

    rule = "INV-20"

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    def elected_uncleanly(self, broker: Broker, _epoch: int, end: int) -> None:
        """An operator agreed to lose what the new master's log does not hold, and no more."""
        lost = self.oracle.elected_uncleanly(broker.world.time_us, end)
        broker.world.mark("unclean.acknowledged_and_lost" if lost else "unclean.nothing_lost")

    def finish(self, world: World) -> None:
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                for topic in TOPICS:
                    for queue in range(QUEUES):
                        self.drain(name, host.process, topic, queue)

    def drain(self, name: str, broker: Broker, topic: str, queue: int) -> None:
        records = read_all(broker.store, topic, queue)
        offsets = [queue_offset_of(record) for record in records]
        if offsets != list(range(len(offsets))):
            raise Violation("INV-24", f"{topic}/{queue} has gaps: {offsets[:50]}", (name,))
        self.oracle.judge_drain((topic, queue), [number_of(r) for r in records], name)
