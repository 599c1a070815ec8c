"""The world `popping`: `secondary` with an ordered POP group and batch acknowledgements.

It is a separate world, so that the seeds of `secondary` keep their histories. Messages for an exact
time are tested there.
"""

from random import Random

from sim.group.clients import Client
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.plan import Plan
from sim.kernel.workload import QUEUES, TOPICS
from sim.kernel.world import MS
from sim.popping.inv_28_ordered import PoppedInOrder
from sim.popping.popping_broker import PoppingBroker
from sim.popping.popping_clients import PoppingClient
from sim.secondary.secondary_broker import SecondaryBroker
from sim.secondary.secondary_clients import IN_ORDER
from sim.secondary.secondary_world import SecondaryHistory


class PoppingHistory(SecondaryHistory):
    """Two groups consume the same queues, one of them in order."""

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.sends_max = sizes.choice((60, 100, 150))
        self.pace_us = self.safety_us * (1 + self.burst_max) // (2 * self.sends_max)
        self.mix = tuple(kind for kind in self.mix if kind != "timer")
        self.bundles = sizes.randrange(4) > 0

    def checkers(self) -> list[Checker]:
        self.ordered = PoppedInOrder(IN_ORDER)
        return [*super().checkers(), self.ordered]

    def make_broker(self, host: Host) -> SecondaryBroker:
        return PoppingBroker(self, host)

    def make_client(self, host: Host) -> Client:
        return PoppingClient(self, host)

    def consume(self, host: Host) -> None:
        super().consume(host)
        chance, world = self.world.streams["ordered"], self.world

        def act() -> None:
            if isinstance(host.process, PoppingClient):
                host.process.pop_in_order()

        if self.busy():
            world.after(chance.randrange(20) * MS, "pop in order", act, host)

    def drain_pops(self) -> None:
        super().drain_pops()
        world = self.world

        def act(host: Host) -> None:
            if isinstance(host.process, PoppingClient):
                self.lead(host.process)
                host.process.pop_in_order()
            world.after(20 * MS, "drain", lambda: act(host), host)

        for host in self.clients:
            world.after(0, "drain", lambda host=host: act(host), host)  # type: ignore[misc]

    def is_calm(self) -> bool:
        return super().is_calm() and all(map(self.all_in_order, self.masters()))

    def all_in_order(self, broker: SecondaryBroker) -> bool:
        """Return whether the ordered group has consumed every queue to its end."""
        owned = broker.owned
        return all(
            owned.store.queue_bounds(topic, queue)[1]
            <= max(0, owned.offsets.get(IN_ORDER, topic, queue))
            for topic in TOPICS
            for queue in range(QUEUES)
        )


def history(plan: Plan) -> PoppingHistory:
    return PoppingHistory(plan)
