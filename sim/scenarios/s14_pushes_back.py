"""S14 (rocketmq#1094, RIP-32): a master restarts with older offsets, and pushes them back.

The master dies with offsets and delay levels that it saved long ago; its slave acts, consumers
commit there and delayed messages leave. Then it comes back, once or twice, and now and then dies
again on its way. Expected: it is not seen before it holds all that the slave did, and the slave
copies nothing older from it.
"""

from collections.abc import Iterator
from random import Random

from sim.kernel.world import MS
from sim.scenarios.acting_story import ActingStory
from sim.scenarios.script import Step


class Story(ActingStory):
    name = "S14"

    def draw(self, sizes: Random) -> None:
        super().draw(sizes)
        self.drawn["flush_consumer_offset_interval"] = 4_000
        self.drawn["flush_delay_offset_interval"] = 4_000

    def script(self) -> Iterator[Step]:
        chance = self.world.streams["story"]
        for _ in range(chance.randint(1, 2)):
            before = self.sent("level")
            yield lambda n=before: self.sent("level") >= n + 4  # type: ignore[misc]
            self.world.kill(self.host("a0"))
            yield lambda: self.acts("a1")
            more = self.committed() + 10
            yield lambda n=more: self.committed() >= n  # type: ignore[misc]
            yield self.noise(0, 2_000)
            self.world.start(self.host("a0"))
            if chance.randrange(3) == 0:
                yield self.noise(0, 300)
                self.world.kill(self.host("a0"))
                yield self.noise(100, 1_000)
                self.world.start(self.host("a0"))
            yield self.is_well
        yield self.noise(50, 300) + 50 * MS

    def committed(self) -> int:
        """Offsets that brokers took so far."""
        return self.world.marks["covered.committed"]
