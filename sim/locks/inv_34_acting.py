"""INV-34 with acting masters: a route shows one master a group, and no two serve locks for long.

A name server shows the registered master, else the smallest id that it knows, for reading only.
Two acting masters are possible for as long as the first does not notice that it no longer
acts (`brokerNotActiveTimeoutMillis`); not longer, whatever a part of the name servers says. What
they give out meanwhile is INV-31's to judge.
"""

from typing import TYPE_CHECKING

from epochmq.broker.serving.roles import Role
from epochmq.model.topic import MessageQueue, TopicRouteData, is_writable
from epochmq.nameserver.route_table import RouteTable
from sim.controller.member import GROUP
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.locks.lock_brokers import LockBroker


class OneActing(Checker):
    """`together_ms`: for how long two slaves may act as master at one time."""

    rule = "INV-34"

    def __init__(self, together_ms: int) -> None:
        self._together_us = together_ms * MS
        self._acting: dict[str, tuple[LockBroker, int]] = {}
        """The hosts of acting masters, and since when each acts."""

    def route_shown(self, host: Host, route: TopicRouteData, table: RouteTable) -> None:
        known = table.brokers.groups[GROUP].addrs
        shown = [group for group in route.broker_datas if group.broker_name == GROUP]
        if len(shown) != 1:
            raise Violation(self.rule, f"the group is shown {len(shown)} times", (host.name,))
        addresses = list(shown[0].broker_addrs.values())
        if len(set(addresses)) != len(addresses):
            raise Violation(self.rule, f"one broker twice: {addresses}", (host.name,))
        master = shown[0].broker_addrs.get(0)
        if 0 in known:
            if master != known[0]:
                raise Violation(self.rule, f"{master} is shown, not {known[0]}", (host.name,))
        elif master is not None:
            if master != known[min(known)]:
                text = f"{master} acts as master, the smallest id is {known[min(known)]}"
                raise Violation(self.rule, text, (host.name,))
            if any(is_writable(queues.perm) for queues in route.queue_datas):
                raise Violation(self.rule, "an acting master is shown as writable", (host.name,))

    def took_role(self, broker: "LockBroker", role: Role) -> None:
        name = broker.host.name
        if role is Role.ACTING_MASTER:
            self._acting[name] = broker, broker.world.time_us
        else:
            self._acting.pop(name, None)

    def locks_given(self, broker: "LockBroker", _client: str, queues: list[MessageQueue]) -> None:
        own = self._acting.get(broker.host.name)
        if not queues or own is None or own[0] is not broker:
            return
        for name, (other, since_us) in sorted(self._acting.items()):
            host = other.host
            if other is broker or host.process is not other or host.paused:
                continue
            together_us = broker.world.time_us - max(own[1], since_us)
            if together_us > self._together_us:
                text = f"two act as master since {together_us // MS} ms, and one gives locks"
                raise Violation(self.rule, text, (broker.host.name, name))
