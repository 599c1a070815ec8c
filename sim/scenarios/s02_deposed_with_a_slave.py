"""S02 (rocketmq#6662): a master that is cut off together with a slave moves its confirmed offset.

Expected: a member without a link holds it where it was; nothing is shown there that is cut later.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S02"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        self.cut((a, b), (c, *self.controllers))
        yield lambda: self.is_master(c)
        yield self.noise(50, 400)
