"""S26: all controllers are gone; the master's lease ends, and its whole set is still there.

Expected: messages go on by the word of all members, and of nobody less: one member out of reach
stops them. The master dies meanwhile; when controllers return another goes on and nothing is lost.
"""

from collections.abc import Iterator

from sim.kernel.violation import Violation
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S26"

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a, epoch = self.master(), self.group().epoch
        for name in self.controllers:
            self.world.kill(self.host(name))
        yield lambda: not self.is_master(a)
        yield from self.goes_on(a)
        b = self.others(a)[self.world.streams["story"].randrange(2)]
        self.cut(a, b)
        yield 50 * MS  # what was on its way
        acked = len(self.oracle.acked)
        yield 2000 * MS  # longer than any lease, and than a silent link stands
        if len(self.oracle.acked) > acked or self.serves(a):
            raise Violation("INV-25", "a member is out of reach, and the master goes on", (a,))
        self.mend()
        yield from self.goes_on(a)
        if self.world.streams["story"].randrange(2):
            self.world.kill(self.host(a))
            yield self.noise(10, 300)
            self.start_controllers()
            yield lambda: self.is_master(*self.others(a))
        else:
            self.start_controllers()
            yield lambda: self.is_master(a)
            if self.group().epoch != epoch:
                raise Violation("INV-35", "the epoch changed, and the master never stopped", (a,))
        yield self.noise(50, 300)

    def goes_on(self, a: str) -> Iterator[Step]:
        """Messages are acknowledged, and there is no lease."""
        acked = len(self.oracle.acked)
        yield lambda: len(self.oracle.acked) >= acked + 5
        if self.is_master(a):
            raise Violation("INV-25", "a lease, and nobody to give it", (a,))

    def serves(self, name: str) -> bool:
        broker = self.broker(name)
        return broker.may_serve(broker.host.now)

    def start_controllers(self) -> None:
        for name in self.controllers:
            self.world.start(self.host(name))
