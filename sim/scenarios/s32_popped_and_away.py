"""S32 (S13 with an acting master): what was popped before and while a slave acts comes back.

Messages are out by POP when their master dies; others are popped from the acting master, and
their check points lie in another group. The master comes back, or that group's master dies as well.
Expected: each message is popped once at least, and every transaction ends.
"""

from collections.abc import Iterator

from sim.scenarios.acting_story import ActingStory
from sim.scenarios.script import Step


class Story(ActingStory):
    name = "S32"
    kinds_sent = ("plain", "half")
    with_pops = True

    def script(self) -> Iterator[Step]:
        chance = self.world.streams["story"]
        yield lambda: len(self.book.popped) >= 6
        self.world.kill(self.host("a0"))
        yield lambda: self.acts("a1")
        popped = len(self.book.popped)
        yield lambda: len(self.book.popped) >= popped + 2
        yield self.noise(0, 1_500)
        if chance.randrange(2):
            self.world.kill(self.host("b0"))
            yield self.noise(100, 1_500)
            self.world.start(self.host("b0"))
        self.world.start(self.host("a0"))
        yield self.is_well
