"""Stories of groups without controllers: a script on the world `acting`, not drawn faults."""

from collections.abc import Callable
from random import Random

from epochmq.broker.serving.roles import Role
from sim.acting.acting_broker import BrokerProcess
from sim.acting.acting_world import ActingHistory
from sim.kernel.faults import Fault
from sim.kernel.world import MS, SECOND
from sim.scenarios.script import Missed, Scripted

WAIT_MAX_US = 10 * SECOND


class ActingStory(Scripted, ActingHistory):
    """Subclasses say which kinds of messages there are, and write `script`."""

    kinds_sent: tuple[str, ...] = ("plain", "level")
    with_pops = False

    def draw(self, sizes: Random) -> None:
        super().draw(sizes)
        self.mix = self.kinds_sent
        self.pops = self.with_pops
        self.slaves = 1
        self.safety_us = 60 * SECOND
        self.pace_ms = sizes.choice((30, 60))

    def draw_faults(self) -> list[Fault]:
        return []

    def wait_for(self, condition: Callable[[], bool]) -> None:
        until = self.world.time_us + WAIT_MAX_US
        while not condition():
            if self.world.time_us >= until:
                raise Missed
            self.world.run_until(self.world.time_us + 20 * MS)

    # Words of scripts ---------------------------------------------------------------------------

    def broker(self, name: str) -> BrokerProcess:
        process = self.host(name).process
        if not isinstance(process, BrokerProcess):
            raise Missed
        return process

    def acts(self, name: str) -> bool:
        """Whether the broker acts as master."""
        return self.broker(name).role is Role.ACTING_MASTER

    def sent(self, kind: str) -> int:
        """So many messages of a kind were acknowledged."""
        return len(self.book.acked(kind))

    def escaped(self, kind: str) -> int:
        """So many batches of an origin went to another group."""
        return self.world.marks[f"covered.escaped.{kind}"]
