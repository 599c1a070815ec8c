"""S06 (rocketmq#9689): the same master in a new epoch; its entry is missing when a batch is sent.

Expected: the epoch's entry is durable before anything of that epoch, and followers hear of it.
"""

from collections.abc import Iterator

from sim.kernel.world import MS
from sim.scenarios.script import Missed, Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S06"

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        epoch = self.group().epoch
        for _ in range(2):
            # Nobody else can be elected when the master's lease runs out.
            self.cut((b, c), self.controllers)
            yield (self.cluster.lease_ms + 300) * MS
            self.world.kill(self.host(a))
            yield self.noise(10, 100)
            self.world.start(self.host(a))
            yield lambda: self.is_master(a)
            yield self.noise(30, 200)
            self.mend()
            yield self.noise(30, 200)
        if self.group().epoch < epoch + 2:
            raise Missed
        yield lambda: self.is_master(a)
        self.world.power_off(self.host(a))
        yield lambda: self.is_master(b, c)
        yield self.noise(50, 200)
