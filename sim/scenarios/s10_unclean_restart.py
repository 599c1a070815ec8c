"""S10 (KIP-966): a member loses its unsynced tail, is elected, and cuts the others.

Expected: who restarts unclean is not electable until it has caught up, and whoever holds everything
is waited for.
"""

from collections.abc import Iterator

from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S10"
    sync = False

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        if self.world.streams["story"].randrange(2):
            # The followers go on with the master, but the controllers do not hear of them.
            self.cut((b, c), self.controllers)
            yield (self.cluster.lease_ms + 50) * MS
            one = a
        else:
            # Two are left; the master dies, and the other one is alone in the set.
            self.world.kill(self.host(c))
            yield lambda: len(self.members()) == 2 and c not in self.members()
            yield self.noise(50, 200)
            self.world.kill(self.host(a))
            yield lambda: self.group().epoch > 1
            one = b
        self.world.power_off(self.host(one))
        yield self.noise(10, 300)
        self.world.start(self.host(one))
        yield self.noise(1000, 1500)
