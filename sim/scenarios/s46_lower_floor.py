"""S46: minInSyncReplicas is lowered on a master that is left alone; it acknowledges, and dies.

The other replica left the set while it was too small to acknowledge, and comes back first.
Expected: the controllers know the lower number before the master uses it, so nobody is elected who
lacks what it acknowledged alone.
"""

from collections.abc import Iterator
from dataclasses import replace

from sim.kernel.violation import Violation
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S46"
    count = 2

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 2
        gone = self.master()
        (a,) = self.others(gone)
        self.world.kill(self.host(gone))
        yield lambda: self.is_master(a)
        yield self.noise(50, 300)
        acked = len(self.oracle.acked)
        is_cut = self.world.streams["story"].randrange(3) == 0
        if is_cut:
            self.cut(a, self.controllers)
        self.cluster.minimum = 1
        self.replication = replace(self.replication, min_in_sync_replicas=1)
        self.broker(a).change_floor(1)
        if is_cut:
            yield self.noise(10, 600)
            if len(self.oracle.acked) > acked:
                raise Violation("INV-20", "acknowledged alone, and nobody knows of it", (a,))
            self.mend()
        yield lambda: len(self.oracle.acked) > acked + 3
        self.world.kill(self.host(a))
        yield self.noise(0, 100)
        self.world.start(self.host(gone))
        yield self.noise(300, 1500)
        self.world.start(self.host(a))
        yield lambda: self.is_master(a)
