"""S03 (rocketmq#7017): an isolated master goes on answering; on the heal its tail is cut.

Expected: without every member of the set it acknowledges nothing; when neither its lease nor its
whole set is within reach any more it refuses.
"""

from collections.abc import Iterator

from sim.kernel.violation import Violation
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S03"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        self.cut(a, (b, c, *self.controllers))
        yield lambda: self.is_master(b, c)
        acked = len(self.oracle.acked)
        if self.is_master(a):
            raise Violation("INV-25", "the isolated master may still acknowledge", (a,))
        yield self.cluster.lease_ms * MS
        broker = self.broker(a)
        if broker.may_serve(broker.host.now):
            raise Violation("INV-25", "the isolated master still serves", (a,))
        yield self.noise(100, 400)
        self.mend()
        yield lambda: len(self.oracle.acked) > acked
        yield 100 * MS
