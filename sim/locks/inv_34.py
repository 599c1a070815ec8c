"""INV-34: the name server shows at most one master a group, that of the highest epoch."""

from epochmq.nameserver.route_table import RouteTable
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation


class OneRoute(Checker):
    """Who registered as master under the highest epoch is the one that is shown."""

    rule = "INV-34"

    def __init__(self) -> None:
        self.epoch = 0
        self.address = ""

    def registered(
        self, host: Host, address: str, broker_id: int, epoch: int, routes: RouteTable
    ) -> None:
        if broker_id == 0 and epoch > self.epoch:
            self.epoch, self.address = epoch, address
        shown = routes.brokers.groups["g"].addrs.get(0)
        if shown is not None and shown != self.address:
            text = f"{shown} is shown as master, that of epoch {self.epoch} is {self.address}"
            raise Violation(self.rule, text, (host.name,))
