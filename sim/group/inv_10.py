"""INV-10, INV-12, INV-13: one history of confirmed bytes.

What any replica ever called confirmed goes into one golden log. Each replica that confirms more is
compared with it, each restarted one from its first byte, so any two agree up to the smaller of
their confirmed offsets (INV-10), and confirmed bytes never change (INV-13). `confirmed` never goes
back while a process lives (INV-12).
"""

from epochmq.store.store import Store
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.store.store_shell import log_span


class ConfirmedLog(Checker):
    """The golden log, and how far each process was compared with it."""

    rule = "INV-13"

    def __init__(self) -> None:
        self.golden = bytearray()
        self.compared: dict[tuple[str, int], int] = {}
        self.unclean = (0, 0)
        """The last epoch that an unclean election began, and where its master's log ended then."""

    def elected_uncleanly(self, broker: Broker, epoch: int, end: int) -> None:
        """What its log does not hold is lost, and logs of older epochs count that far only."""
        self.compare(broker.host, broker.store, broker.store.pointers.start, end)
        del self.golden[end:]
        self.unclean = epoch, end

    def is_older(self, host: Host) -> bool:
        """Whether this log has nothing of the last unclean epoch yet."""
        process = host.process
        return isinstance(process, Broker) and process.epochs.last_epoch < self.unclean[0]

    def observe(self, world: World) -> None:
        host = world.touched
        store = getattr(host.process, "store", None) if host is not None else None
        if host is None or not isinstance(store, Store):
            return
        key, confirmed = (host.name, host.incarnation), store.pointers.confirmed
        before = self.compared.get(key, store.pointers.start)
        if confirmed == before:
            return
        if confirmed < before:
            raise Violation("INV-12", "confirmed went back", (host.name,), (before, confirmed))
        self.compare(host, store, before, confirmed)
        self.compared[key] = confirmed

    def compare(self, host: Host, store: Store, start: int, stop: int) -> None:
        if self.is_older(host):
            stop = max(start, min(stop, self.unclean[1]))
        found, golden = log_span(store, start, stop), self.golden
        if len(found) != stop - start:
            raise Violation(self.rule, "confirmed bytes are missing", (host.name,), (start, stop))
        known = bytes(golden[start:stop])
        if known != found[: len(known)]:
            at = start + next(
                i for i, (a, b) in enumerate(zip(known, found, strict=False)) if a != b
            )
            raise Violation(self.rule, "confirmed bytes differ", (host.name,), (at,))
        if stop > len(golden):
            if start > len(golden):
                return  # a copy that began behind what others confirmed
            golden += found[len(golden) - start :]

    def truncated(self, host: Host, offset: int) -> None:
        """After a cut everything confirmed is compared again."""
        key = (host.name, host.incarnation)
        if self.is_older(host) and offset >= self.unclean[1]:
            if key in self.compared:
                self.compared[key] = min(self.compared[key], offset)
        elif self.compared.get(key, 0) > offset:
            raise Violation("INV-15", "cut below the own confirmed offset", (host.name,), (offset,))

    def finish(self, world: World) -> None:
        for _, host in sorted(world.hosts.items()):
            store = getattr(host.process, "store", None)
            if isinstance(store, Store):
                self.compare(host, store, store.pointers.start, store.pointers.confirmed)
