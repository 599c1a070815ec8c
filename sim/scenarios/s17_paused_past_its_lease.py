"""S17: a process is paused past its lease, wakes up, and acknowledges as if nothing had been.

Expected: the lease, and whether the whole set was heard lately, is looked at again before each
acknowledgement. What all members hold would be harmless (ADR 0044); S28 has the case that is not.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S17"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        yield lambda: self.tail(a) > 0
        self.world.pause(self.host(a))
        yield lambda: self.is_master(b, c)
        yield self.noise(0, 300)
        self.world.resume(self.host(a))
        yield self.noise(100, 400)
