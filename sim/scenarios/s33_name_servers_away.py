"""S33 (RIP-32, H2): name servers are away for long, and a master returns before its slave is known.

All name servers die; brokers try to register ever more seldom. The master dies as well. Then all of
them are back at one time. Expected: the slave is known again at once, so that the master sees it,
and does not take itself for alone and go online with what it saved long ago.
"""

from collections.abc import Iterator
from random import Random

from sim.scenarios.acting_story import ActingStory
from sim.scenarios.script import Step


class Story(ActingStory):
    name = "S33"

    def draw(self, sizes: Random) -> None:
        super().draw(sizes)
        self.drawn["flush_consumer_offset_interval"] = 20_000

    def script(self) -> Iterator[Step]:
        marks = self.world.marks
        yield lambda: marks["covered.committed"] >= 10
        for number in range(self.names_count):
            self.world.kill(self.host(f"n{number}"))
        yield self.noise(1_500, 4_000)
        self.world.kill(self.host("a0"))
        yield self.noise(0, 300)
        for number in range(self.names_count):
            self.world.start(self.host(f"n{number}"))
        self.world.start(self.host("a0"))
        yield self.is_well
