"""S05 (rocketmq#10666): a follower's cut is not on the device; after a crash the tail comes back.

Expected: the cut is durable before the epochs change and before anything is appended.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S05"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        self.cut(a, (b, c))
        yield lambda: self.tail(a) > 1000
        yield lambda: self.tail(a) > 1000 and not self.broker(a).store.needs_sync
        self.world.kill(self.host(a))
        self.mend()
        yield lambda: self.is_master(b, c)
        before = self.world.marks["covered.truncated"]
        self.world.start(self.host(a))
        yield lambda: self.world.marks["covered.truncated"] > before
        yield self.noise(0, 3)
        self.world.power_off(self.host(a))
        self.world.start(self.host(a))
        yield self.noise(100, 300)
        # Who was cut must hold what the others hold, for it may be the next master.
        yield lambda: a in self.members()
        self.cut((b, c), self.controllers)
        yield self.noise(100, 300)
        for name in (b, c):
            self.world.kill(self.host(name))
        yield lambda: self.is_master(a)
        yield self.noise(50, 200)
