"""S07 (rocketmq#9942): masters change while nothing is written and slaves are delayed in turn.

Expected: epoch files that differ by empty epochs only are no reason not to follow.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S07"

    def script(self) -> Iterator[Step]:
        self.telling = False
        yield self.noise(200, 300)
        for _ in range(3):
            a = self.master()
            b, c = self.others(a)
            late = (b, c)[self.world.streams["story"].randrange(2)]
            self.cut(late, tuple(self.others(late)))
            self.world.kill(self.host(a))
            yield lambda names=(b, c): self.is_master(*names)  # type: ignore[misc]
            yield self.noise(10, 300)
            self.world.start(self.host(a))
            yield self.noise(10, 300)
            self.mend()
        self.telling = True
        for host in self.clients:
            self.produce(host)
        yield self.noise(50, 200)
        self.world.kill(self.host(self.master()))
        yield self.noise(50, 600)
