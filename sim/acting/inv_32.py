"""INV-32: only a master appends to its log by itself; what others have is a piece of that log."""

from typing import TYPE_CHECKING, NamedTuple

from epochmq.broker.serving.roles import Role
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import World

if TYPE_CHECKING:
    from sim.acting.acting_broker import BrokerProcess


class SlavesCopy(Checker):
    """Hears of every append, and compares the logs at the end."""

    rule = "INV-32"

    def appends(self, broker: "BrokerProcess") -> None:
        if broker.role is not Role.MASTER:
            raise Violation(self.rule, f"a {broker.role.name} appends", (broker.host.name,))

    def finish(self, world: World) -> None:
        from sim.acting.acting_broker import BrokerProcess

        logs: dict[str, tuple[str, Log]] = {}
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, BrokerProcess) and host.process.ready:
                log = whole_log(host.process)
                other, first = logs.setdefault(host.process.group, (name, log))
                if not first.fits(log):
                    raise Violation(self.rule, "two logs differ", (other, name))


class Log(NamedTuple):
    """What a broker has of its group's log; a slave without any begins with the last file."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def fits(self, other: "Log") -> bool:
        """Whether what both have is the same."""
        low, high = max(self.start, other.start), max(self.start, min(self.end, other.end))
        ours, theirs = (log.data[low - log.start : high - log.start] for log in (self, other))
        return ours == theirs


def whole_log(broker: "BrokerProcess") -> Log:
    store = broker.node.store
    found = bytearray()
    start = at = store.pointers.start
    end = store.pointers.appended
    while at < end:
        part = store.slice(at, end - at)
        if not len(part):
            break
        found += part
        at += len(part)
    return Log(start, bytes(found))
