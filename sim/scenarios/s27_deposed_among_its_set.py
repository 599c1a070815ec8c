"""S27: only the master is cut off from the controllers; one of its set is elected, still linked.

Past its lease it goes on by the word of all members. Expected: the elected one holds whatever was
acknowledged until it left, however late the old master says so; paused, it may say so much later.
"""

from collections.abc import Iterator
from random import Random

from sim.kernel.violation import Violation
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S27"

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.pace_us = 2 * MS

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a = self.master()
        chance = self.world.streams["story"]
        self.cut(a, self.controllers)
        if chance.randrange(2):
            yield self.noise(0, 2 * self.cluster.lease_ms)
            self.world.pause(self.host(a))
        yield lambda: self.is_master(*self.others(a))
        if chance.randrange(2):
            yield self.noise(0, 300)
        self.world.resume(self.host(a))
        yield self.noise(50, 300)
        broker = self.broker(a)
        if broker.may_serve(broker.host.now):
            raise Violation("INV-25", "its members left, and the old master goes on", (a,))
        self.mend()
        yield self.noise(50, 200)
