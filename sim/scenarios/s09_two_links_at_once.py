"""S09 (rocketmq#9897): two links die at once; a lost update keeps a dead member in the set.

Expected: one writer for the set: the dead member leaves, the living one stays, sends go on.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S09"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        for _ in range(3):
            self.cluster.net.reset(a, b)
            self.cluster.net.reset(a, c)
            yield self.noise(0, 20)
        self.world.kill(self.host(b))
        self.cluster.net.reset(a, c)
        yield lambda: b not in self.members()
        yield lambda: c in self.members()
        acked = len(self.oracle.acked)
        yield lambda: len(self.oracle.acked) > acked + 3
