"""INV-29: a committed consumer offset never goes back because a broker died, acted or came back.

A replica that copies another's table loses nothing by it. A master that comes back holds what every
member has that the name servers know of, or that handed over to it, to the queue; what only others
had goes back when they copy its table. What only the disk of a dead broker knew is not required:
an acting master that dies takes with it what it did since it began, and a master that dies what it
had not saved. An offset that a consumer set back is not a fault of a replica: `acting_again`
(`Again.committed`) checks whether the consumer had a reason.
"""

from typing import TYPE_CHECKING

from epochmq.broker.serving.roles import Role
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.world import SECOND, World

if TYPE_CHECKING:
    from sim.acting.acting_broker import BrokerProcess

Rows = dict[str, dict[int, int]]
COPIED_US = 2 * SECOND
"""Slaves have copied a commit by then."""


class OffsetsStay(Checker):
    """Looks at whole tables when they are replaced, and when a role begins."""

    rule = "INV-29"

    def __init__(self, world: World) -> None:
        self.world = world
        self._set_back: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Group of brokers, row, queue -> where a consumer went back to, and when."""

    def commits(
        self, broker: "BrokerProcess", group: str, topic: str, queue_id: int, offset: int
    ) -> None:
        """A consumer, or the broker itself, is about to commit there."""
        if offset < broker.node.offsets.get(group, topic, queue_id):
            place = broker.group, f"{topic}@{group}", queue_id
            self._set_back[place] = offset, self.world.time_us

    def is_consumers(self, broker: "BrokerProcess", key: str, queue_id: int, offset: int) -> bool:
        back, at_us = self._set_back.get((broker.group, key, queue_id), (0, -COPIED_US))
        return offset >= back and self.world.time_us - at_us < COPIED_US

    def adopted(self, broker: "BrokerProcess", before: Rows) -> None:
        """`broker` took its master's rows over its own."""
        lost = [
            (key, queue, old, new)
            for key, queue, old, new in lower(before, broker.node.offsets.table)
            if not self.is_consumers(broker, key, queue, new)
        ]
        if lost and broker.settled:
            raise Violation(self.rule, f"copying sets back {lost}", (broker.host.name,))

    def takes_role(self, broker: "BrokerProcess", before: Role, role: Role) -> None:
        if before is not Role.PRE_ONLINE or role is not Role.MASTER:
            return
        for other in broker.history.online_beside(broker):
            lost = lower(other.node.offsets.table, broker.node.offsets.table)
            if lost:
                names = (broker.host.name, other.host.name)
                raise Violation(self.rule, f"online without {lost} of {other.role.name}", names)


def lower(before: Rows, after: Rows) -> list[tuple[str, int, int, int]]:
    """(row, queue, offset before, offset after) of what went back."""
    return [
        (key, queue, offset, after.get(key, {}).get(queue, -1))
        for key, row in sorted(before.items())
        for queue, offset in sorted(row.items())
        if after.get(key, {}).get(queue, -1) < offset
    ]
