"""S29: the controllers lose their disks while a master goes on past its lease with its set of two.

The third replica left the set while nothing was written, so all three logs are equal when they are
told to controllers that know no set. Expected: who registers again has left the old epoch first, so
whoever is elected holds what was acknowledged meanwhile.
"""

from collections.abc import Iterator

from sim.controller.controllers import ControllerProcess
from sim.group.clients import Client
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S29"

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        c = min(self.brokers(), key=lambda b: b.membership.broker_id or 0).host.name
        if self.is_master(c):  # the lowest number wins among equals: it must not be the master's
            self.world.kill(self.host(c))
            yield lambda: self.is_master(*self.others(c))
            self.world.start(self.host(c))
            yield lambda: len(self.members()) == 3
        self.telling = False
        yield 500 * MS
        self.cut(c, (*self.others(c), "p1"))
        yield lambda: len(self.members()) == 2
        a = self.master()
        for name in self.controllers:
            self.world.kill(self.host(name))
        yield self.noise(10, 1500)
        self.wipe_controllers()
        for name in self.controllers:
            self.world.start(self.host(name))
        yield lambda: bool(self.leader())
        yield self.noise(100, 450)
        for _ in range(100):
            self.send_to(a)
            yield 5 * MS
        yield lambda: self.is_master(*self.cluster.broker_names)
        self.mend()
        yield self.noise(50, 300)

    def leader(self) -> bool:
        found = [self.host(name).process for name in self.controllers]
        return any(isinstance(p, ControllerProcess) and p.node.core.context.leads for p in found)

    def send_to(self, name: str) -> None:
        host = self.clients[0]

        def act() -> None:
            if isinstance(host.process, Client):
                host.process.target = self.cluster.broker_names.index(name)
                host.process.send()

        self.world.after(0, "send", act, host)
