"""INV-33: a broker that comes back is invisible until it holds what its group did without it.

No slave acts for it any more when it is online; its tables of topics have every row of the
living members', and its delay levels are as far.
"""

from typing import TYPE_CHECKING

from epochmq.broker.serving.roles import Role
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation

if TYPE_CHECKING:
    from sim.acting.acting_broker import BrokerProcess


class Unseen(Checker):
    """Looks when a role begins."""

    rule = "INV-33"

    def takes_role(self, broker: "BrokerProcess", before: Role, role: Role) -> None:
        if before is not Role.PRE_ONLINE or role is not Role.MASTER:
            return
        for other in broker.history.online_beside(broker):
            self.compare(broker, other)

    def compare(self, broker: "BrokerProcess", other: "BrokerProcess") -> None:
        names = (broker.host.name, other.host.name)
        if other.role is Role.ACTING_MASTER:
            raise Violation(self.rule, "online while a slave acts as master", names)
        missing = sorted(other.node.topics.table.keys() - broker.node.topics.table.keys())
        if missing:
            raise Violation(self.rule, f"online without the topics {missing[:5]}", names)
        ours, theirs = broker.node.schedule.progress(), other.node.schedule.progress()
        behind = {n: (ours.get(n, 0), at) for n, at in theirs.items() if ours.get(n, 0) < at}
        if behind:
            raise Violation(self.rule, f"online with delay levels set back: {behind}", names)
