"""S30: whether a replica was let in is never answered, and the replica dies.

The master counts who may be in the set (rocketmq#5663). When the question was lost, and its repeat
is refused since the replica is dead, that it is out must be learned all the same: else the dead one
is waited for until it returns. Expected: the set's epoch moves, and messages go on.
"""

from collections.abc import Iterator

from sim.kernel.violation import Violation
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S30"

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a, epoch = self.master(), self.group().epoch
        c = self.others(a)[self.world.streams["story"].randrange(2)]
        self.world.kill(self.host(c))
        yield lambda: len(self.group().members) == 2
        self.world.start(self.host(c))
        yield lambda: self.asks(a) or self.follows(c)
        self.cut_way(a, self.controllers)
        yield lambda: self.asks(a) or not self.is_master(a)
        self.world.kill(self.host(c))
        yield self.noise(100, 400)
        if not (self.asks(a) and self.is_master(a)):
            return  # it was settled before the cut, or the lease is over
        self.world.mark("covered.S30.open")
        self.mend()
        acked = len(self.oracle.acked)
        for _ in range(60):
            yield 100 * MS
            if self.group().epoch != epoch:
                return  # the cut was too long, another is master
            if len(self.oracle.acked) >= acked + 5 and self.counted(a) == 2:
                break
        else:
            raise Violation("INV-35", "a dead replica is waited for, that is in no set", (a,))
        self.world.start(self.host(c))
        yield lambda: len(self.group().members) == 3

    def asks(self, master: str) -> bool:
        """More replicas count than are in the committed set."""
        node = self.broker(master).node
        if node is None or node.master is None:
            return False
        in_sync = node.master.in_sync
        return in_sync.effective != in_sync.committed

    def follows(self, name: str) -> bool:
        process = self.host(name).process
        return process is not None and self.broker(name).uplink is not None
