"""INV-32: only a master appends to its log by itself; what others have is a piece of that log."""

from typing import TYPE_CHECKING

from epochmq.broker.roles import Role
from sim.checkers.base import Checker
from sim.violation import Violation
from sim.world import World

if TYPE_CHECKING:
    from sim.acting import BrokerProcess


class SlavesCopy(Checker):
    """Hears of every append, and compares the logs at the end."""

    rule = "INV-32"

    def appends(self, broker: "BrokerProcess") -> None:
        if broker.role is not Role.MASTER:
            raise Violation(self.rule, f"a {broker.role.name} appends", (broker.host.name,))

    def finish(self, world: World) -> None:
        from sim.acting import BrokerProcess

        logs: dict[str, tuple[str, bytes]] = {}
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, BrokerProcess) and host.process.ready:
                log = whole_log(host.process)
                first = logs.setdefault(host.process.group, (name, log))
                common = min(len(first[1]), len(log))
                if first[1][:common] != log[:common]:
                    raise Violation(self.rule, "two logs differ", (first[0], name))


def whole_log(broker: "BrokerProcess") -> bytes:
    store = broker.node.store
    found = bytearray()
    at, end = store.pointers.start, store.pointers.appended
    while at < end:
        part = store.slice(at, end - at)
        if not len(part):
            break
        found += part
        at += len(part)
    return bytes(found)
