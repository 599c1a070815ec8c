"""S23 (defects, part 2.9): the controllers lose their disks under running brokers.

Expected: they take the brokers back by the ids these have, elect nobody before all have reported,
and go on with a higher epoch; nothing acknowledged is lost.
"""

from collections.abc import Iterator

from sim.kernel.violation import Violation
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S23"

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        ids = {b.host.name: b.membership.broker_id for b in self.brokers()}
        epoch = self.group().epoch
        for name in self.controllers:
            self.world.kill(self.host(name))
        yield self.noise(10, 2000)
        self.wipe_controllers()
        for name in self.controllers:
            self.world.start(self.host(name))
        yield lambda: self.is_master(*self.cluster.broker_names)
        if self.group().epoch <= epoch:
            raise Violation("INV-07", f"epoch {epoch} was followed by {self.group().epoch}")
        for broker in self.brokers():
            if broker.membership.broker_id != ids[broker.host.name]:
                raise Violation("INV-09", "a broker's id changed", (broker.host.name,))
        yield self.noise(50, 300)
