"""S48: a question about the set is asked twice; the second is refused, the first carried out.

The controllers' leader holds the first one without a quorum; meanwhile the replica that shall join
dies, so that the second one is refused. Expected: the refusal of a repeat decides nothing, and that
replica counts until a newer set is seen; the set with it is committed, and it is elected.
"""

from collections.abc import Iterator
from random import Random

from sim.controller.controllers import ControllerProcess
from sim.scenarios.script import Missed, Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S48"
    minimum = 1

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.cluster.election_ms = 400  # no other leader before the second question
        self.cluster.lease_ms, self.cluster.skew_ms = 900, 45

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        number = self.broker(b).membership.broker_id
        self.cut(b, (a, c))
        yield lambda: b not in self.members()
        self.mend()
        node = self.broker(a).node
        assert node is not None

        def proposed() -> bool:
            asked = node.master.in_sync.in_flight if node.master is not None else None
            return asked is not None and number in asked.members

        yield proposed
        leader = self.leader()
        self.cut(leader, self.controllers)  # no quorum
        yield self.noise(6, 10)  # it has arrived
        self.world.kill(self.host(b))
        yield self.noise(12, 20)  # its port was tried
        self.cluster.net.reset(a, leader)  # no answer, so it is asked again
        yield lambda: not proposed()
        self.mend()
        self.cut_way(self.controllers, a)
        self.cut(b, (a, c))
        self.world.start(self.host(b))
        yield lambda: number in self.group().members
        yield self.noise(20, 150)
        self.world.kill(self.host(a))
        self.cut(c, self.controllers)
        yield lambda: self.is_master(b)
        yield self.noise(50, 200)

    def leader(self) -> str:
        for name in self.controllers:
            process = self.host(name).process
            if isinstance(process, ControllerProcess) and process.node.core.context.leads:
                return name
        raise Missed
