"""S22 (defects, part 2.13): a volume is copied, and two brokers have one id.

Expected: the second living process is refused, and the group goes on without it.
"""

from collections.abc import Iterator

from sim.group.brokers import Broker
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Gone:
    """Nothing runs there any more."""

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return "gone"


class Story(Base):
    name = "S22"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.copy = self.cluster.add_spare("x", lambda host: Broker(self, host))

    def script(self) -> Iterator[Step]:
        a = self.master()
        names = [a, *self.others(a)]
        original = self.host(names[self.world.streams["story"].randrange(3)])
        acked = len(self.oracle.acked)
        self.copy.disk = original.disk.kill()
        self.world.start(self.copy)
        for _ in range(20):
            yield self.noise(30, 100)
            process = self.copy.process
            if isinstance(process, Broker) and process.membership.is_master:
                raise Violation("INV-09", "a copy of a living broker leads", ("x", original.name))
        yield lambda: len(self.oracle.acked) > acked + 3
        self.bury()

    def bury(self) -> None:
        """The copy is switched off for good."""
        self.world.kill(self.copy)
        self.copy.boot = lambda _host: Gone()

    def be_well(self) -> None:
        self.bury()
        super().be_well()
