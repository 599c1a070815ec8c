"""S13 (rocketmq#7914, #7724, #8479): POP's revival loses, brings back the acknowledged, or loops.

Clocks are set by up to an hour while messages are out, check points are copied behind their
acknowledgements, and the master dies, once or twice. Expected: what was acknowledged never comes
back because of its check point, all else does, no sooner than it was asked for; the revive queue
comes to its end.
"""

from collections.abc import Iterator
from random import Random

from sim.kernel.world import MS
from sim.scenarios.later_story import LaterStory
from sim.scenarios.script import Step


class Story(LaterStory):
    name = "S13"
    kinds_sent = ("plain",)
    with_pops = True

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.copy_behind = 4

    def script(self) -> Iterator[Step]:
        chance = self.world.streams["story"]
        yield lambda: len(self.members()) == 3
        for _ in range(chance.randint(1, 2)):
            a, before = self.master(), len(self.popped.confirmed)
            yield lambda a=a, n=before: self.busy_with_pops(a, n)  # type: ignore[misc]
            self.set_clock(a, chance.choice((-3_600_000, -2500, 2500, 3_600_000)))
            yield self.noise(50, 400)
            self.world.kill(self.host(a))
            yield lambda a=a: self.is_master(*self.others(a))  # type: ignore[misc]
            yield self.noise(0, 600)
            self.world.start(self.host(a))
            yield lambda: len(self.group().members) == 3
        yield self.noise(100, 500) + 100 * MS

    def busy_with_pops(self, name: str, acked: int) -> bool:
        """More are acknowledged, and some wait to be."""
        if self.host(name).process is None or not self.is_master(name):
            return False
        is_out = self.secondary(name).owned.pop.statistics()["open"] >= 2
        return is_out and len(self.popped.confirmed) >= acked + 5
