"""S01 (rocketmq#5663): the set grew at the controller, the master does not know, and dies.

Expected: while a proposal is open its members count, so nothing was acknowledged without them.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S01"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        self.cut(b, (a, c))
        yield lambda: b not in self.members()
        self.mend()
        # Answers do not reach the master any more; its questions reach the controllers.
        node = self.broker(a).node
        assert node is not None
        number = self.broker(b).membership.broker_id

        def proposed() -> bool:
            """Not the question that took it out, which is answered about now."""
            asked = node.master.in_sync.in_flight if node.master is not None else None
            return asked is not None and number in asked.members

        yield proposed
        self.cut_way(self.controllers, a)
        yield lambda: b in self.members()
        self.cut_way((a, c), b)
        yield self.noise(20, 150)
        self.world.kill(self.host(a))
        self.cut(c, self.controllers)
        yield lambda: self.is_master(b)
        yield self.noise(50, 200)
