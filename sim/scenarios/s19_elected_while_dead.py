"""S19 (found by the simulator): a member is elected whose process just died; its next one leads.

The controllers elect by heartbeats of the process before, which held more than what the power cut
left. Expected: no process leads an epoch before it has registered; so nobody follows it, and cuts
what it had acknowledged, before the controllers know what was lost.
"""

from collections.abc import Iterator

from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S19"
    sync = False

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        yield lambda: len(self.members()) == 3
        yield self.noise(100, 300)
        self.cut(c, self.controllers)
        yield (self.cluster.lease_ms + 20) * MS
        self.world.power_off(self.host(b))
        self.world.kill(self.host(a))
        yield lambda: self.group().epoch > 1
        # It hears of its election soon, and the controllers of its restart late.
        for name in self.controllers:
            self.cluster.net.slow(b, name, 600 * MS)
        self.world.start(self.host(b))
        for name in self.controllers:
            self.cluster.net.heal(name, c)
            self.cluster.net.heal(c, name)
        yield self.noise(400, 1500)
        self.mend()
        yield self.noise(100, 400)
