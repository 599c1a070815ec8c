"""S20 (defects 2.3): a follower is led to a deposed master, and cuts itself to that one's log.

An address that changed hands is enough. Expected: a peer whose last epoch is below the one that the
controllers gave is refused.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S20"

    def script(self) -> Iterator[Step]:
        a = self.master()
        yield lambda: len(self.members()) == 3
        self.cut(a, self.controllers)
        yield lambda: self.is_master(*self.others(a))
        master = self.master()
        (other,) = self.others(a, master)
        self.cut(a, master)
        yield lambda: other in self.members() and a not in self.members()
        yield self.noise(50, 200)
        yield lambda: self.tail(other) > 0
        self.cluster.misled[other, master] = a
        self.cluster.net.reset(other, master)
        yield self.noise(70, 110)
        self.world.kill(self.host(master))
        yield lambda: self.is_master(other)
        yield self.noise(20, 100)
        self.cluster.misled.clear()
