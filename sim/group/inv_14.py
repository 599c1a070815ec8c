"""INV-14: epoch files rise, and every byte belongs to the epoch that wrote it."""

from epochmq.store.draft import Appended
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import World


class EpochsOfBytes(Checker):
    """What was acknowledged under an epoch is found under it on every replica that has it."""

    rule = "INV-14"

    def __init__(self) -> None:
        self.written: dict[int, int] = {}
        """Log offset of an acknowledged message -> epoch."""

    def acked(self, _broker: Broker, epoch: int, placed: Appended) -> None:
        self.written[placed.offset] = epoch

    def elected_uncleanly(self, _broker: Broker, _epoch: int, end: int) -> None:
        self.written = {offset: epoch for offset, epoch in self.written.items() if offset < end}

    def observe(self, world: World) -> None:
        host = world.touched
        if host is not None and isinstance(host.process, Broker):
            self.check_file(host.process)

    def check_file(self, broker: Broker) -> None:
        entries = broker.epochs.entries
        if not entries:
            return
        name = (broker.host.name,)
        if entries[-1].start > broker.store.pointers.appended:
            raise Violation(self.rule, f"an epoch starts behind the log: {entries[-1]}", name)
        if len(entries) > 1:
            last, older = entries[-1], entries[-2]
            if last.epoch <= older.epoch or last.start < older.start:
                raise Violation(self.rule, f"epochs do not rise: {older} {last}", name)

    def finish(self, world: World) -> None:
        for _, host in sorted(world.hosts.items()):
            broker = host.process
            if not isinstance(broker, Broker):
                continue
            for offset, epoch in sorted(self.written.items()):
                entry = broker.epochs.entry_at(offset)
                if offset < broker.store.pointers.confirmed and (
                    entry is None or entry.epoch != epoch
                ):
                    text = f"written in epoch {epoch}, filed under {entry}"
                    raise Violation(self.rule, text, (host.name,), (offset,))
