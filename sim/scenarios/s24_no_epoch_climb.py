"""S24 (rocketmq#6505): every failed election costs an epoch, and masters bounce.

Expected: the epoch rises when a master is named and never else; who returns is elected.
"""

from collections.abc import Iterator

from sim.kernel.violation import Violation
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S24"
    minimum = 1

    def script(self) -> Iterator[Step]:
        names = self.cluster.broker_names
        yield lambda: len(self.members()) == 3
        epoch = self.group().epoch
        for name in names:
            self.world.power_off(self.host(name))
        yield self.noise(2500, 4000)
        after = self.group().epoch
        if after > epoch + 2:  # some may be taken for alive at first
            raise Violation("INV-07", f"nobody lives, and epoch {epoch} became {after}")
        yield self.noise(1000, 2000)
        if self.group().epoch != after:
            raise Violation("INV-07", f"epoch {after} became {self.group().epoch} for nothing")
        for name in names:
            self.world.start(self.host(name))
        yield lambda: self.is_master(*names)
        if self.group().epoch > after + 2:
            raise Violation("INV-07", f"epoch {after} became {self.group().epoch} at the return")
