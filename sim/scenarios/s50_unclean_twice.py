"""S50 (KIP-966): a member loses its unsynced tail, starts, and dies before the controllers hear it.

Its next start follows a crash of the process alone, which loses nothing. Expected: it still says
that it may lack messages, and is not elected before it has caught up.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S50"
    sync = False

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a = self.master()
        b, c = self.others(a)
        yield self.noise(50, 300)
        self.cut(b, self.controllers)
        self.world.power_off(self.host(b))
        for name in self.controllers:
            self.cluster.net.reset(b, name)
        self.world.start(self.host(b))
        yield self.noise(5, 40)
        self.world.kill(self.host(b))
        self.world.kill(self.host(a))
        self.cut(c, self.controllers)
        for name in self.controllers:
            self.cluster.net.heal(b, name)
            self.cluster.net.heal(name, b)
        self.world.start(self.host(b))
        yield self.noise(1000, 1500)
