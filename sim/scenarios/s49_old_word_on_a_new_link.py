"""S49: a follower acknowledges, loses its power and its unsynced tail, and connects again.

Its master has not heard that it was taken out of the set, and hears no acknowledgement over the new
link. Expected: what was said over the old link counts no more, so the follower does not come back
into the set before it holds everything again, and is not elected.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from sim.scenarios.script import Missed, Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S49"
    sync = False

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.cluster.lease_ms, self.cluster.skew_ms = 900, 45
        self.replication = replace(self.replication, lost_link_grace_ms=400, not_caught_up_ms=1500)

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a = self.master()
        b, c = self.others(a)
        number = self.broker(b).membership.broker_id or 0
        before = self.link(a, number)
        yield self.noise(50, 300)
        self.cut_way(self.controllers, a)
        self.world.power_off(self.host(b))
        for name in self.controllers:
            self.cluster.net.reset(b, name)  # they need not wait for what was there before
        self.world.start(self.host(b))
        yield lambda: self.link(a, number) not in (None, before)
        self.cut_way(b, a)
        for name in self.controllers:
            self.cluster.net.heal(name, a)
        yield lambda: number not in self.group().members
        known = self.group().set_epoch
        yield lambda: self.set_epoch(a) >= known
        yield self.noise(20, 200)
        self.world.kill(self.host(a))
        self.cut(c, self.controllers)
        yield self.noise(1000, 1500)

    def set_epoch(self, master: str) -> int:
        """The newest set that the master has seen."""
        node = self.broker(master).node
        return node.master.in_sync.set_epoch if node and node.master else 0

    def link(self, master: str, number: int) -> int | None:
        """The master's link to that follower."""
        node = self.broker(master).node
        if node is None or node.master is None:
            raise Missed
        replica = node.master.in_sync.replicas.get(number)
        return None if replica is None else replica.link
