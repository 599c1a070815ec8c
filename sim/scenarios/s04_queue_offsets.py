"""S04 (rocketmq#7689): queues derived up to the confirmed offset only; offsets are used twice.

Expected: the next queue offsets come from the whole log, at an election and at a restart.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S04"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        yield lambda: min(self.tail(b), self.tail(c)) > 0
        self.world.kill(self.host(a))
        yield lambda: self.is_master(b, c)
        yield self.noise(20, 100)
        second = self.master()
        self.world.kill(self.host(second))
        self.world.start(self.host(second))
        yield lambda: self.is_master(b, c)
        yield self.noise(50, 200)
