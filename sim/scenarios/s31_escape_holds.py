"""S31 (S12 with an acting master; rocketmq#7577, #7923, #7927): a failed escape is not skipped.

The slave acts for its dead master, and the other group's master, to which delayed and timed
messages should go, dies or is cut off for much longer than four tries take; or the own master comes
back first. Expected: progress waits, nothing goes to the dead master, and each message comes out.
"""

from collections.abc import Iterator

from sim.scenarios.acting_story import ActingStory
from sim.scenarios.script import Step


class Story(ActingStory):
    name = "S31"
    kinds_sent = ("plain", "level", "timer")

    def script(self) -> Iterator[Step]:
        chance = self.world.streams["story"]
        yield lambda: self.sent("level") >= 4 and self.sent("timer") >= 4
        self.world.kill(self.host("a0"))
        if chance.randrange(2):
            self.world.kill(self.host("b0"))
        else:
            self.net.cut("a1", "b0")
            self.net.cut("b0", "a1")
        yield lambda: self.acts("a1")
        yield self.noise(500, 2_500)
        if chance.randrange(3) == 0:
            self.world.start(self.host("a0"))
            yield self.noise(0, 1_500)
        self.net.heal_all()
        self.world.start(self.host("b0"))
        yield self.noise(500, 2_000)
        self.world.start(self.host("a0"))
        yield self.is_well
