"""Stories about what is moved on later: those of a group, with its kinds of messages."""

from random import Random

from sim.kernel.world import MS
from sim.scenarios.script import Missed
from sim.scenarios.story import Story as GroupStory
from sim.secondary.secondary_broker import SecondaryBroker
from sim.secondary.secondary_world import SecondaryHistory


class LaterStory(GroupStory, SecondaryHistory):
    """Subclasses say which kinds of messages there are, and write `script`."""

    kinds_sent: tuple[str, ...] = ("plain", "timer")
    with_pops = False

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.mix = self.kinds_sent
        self.pops = self.with_pops
        self.burst_max = 1
        self.pace_us = sizes.choice((20, 40)) * MS

    def be_well(self) -> None:
        """Whatever became of the script, disks have room again."""
        for name in self.cluster.broker_names:
            self.host(name).quota(None)
        super().be_well()

    def secondary(self, name: str) -> SecondaryBroker:
        broker = self.broker(name)
        if not isinstance(broker, SecondaryBroker):
            raise Missed
        return broker

    def set_clock(self, name: str, ms: int) -> None:
        """Somebody sets the wall clock of a host."""
        host = self.host(name)
        host.clock.step_wall(ms)
        self.delayed.skew_us = None
