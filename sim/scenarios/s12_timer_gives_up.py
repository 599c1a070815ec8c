"""S12 (rocketmq#7577, #7923, #7927): a timer's delivery fails, is tried four times, and is dropped.

The master can write nothing for much longer than four tries take: its disk is full, or it hears no
follower. Clocks are set meanwhile, and it dies or recovers. Expected: whoever is master then
delivers each message, none early, none lost; progress moves only when a delivery was acknowledged.
"""

from collections.abc import Iterator

from sim.kernel.world import MS
from sim.scenarios.later_story import LaterStory
from sim.scenarios.script import Step


class Story(LaterStory):
    name = "S12"
    kinds_sent = ("timer", "timer", "level")

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        yield lambda: len(self.delayed.waiting) >= 5
        a, chance = self.master(), self.world.streams["story"]
        full = chance.randrange(2) > 0
        if full:
            self.host(a).quota(0)
        else:
            self.cut_way(tuple(self.others(a)), a)
        tries = chance.randint(5, 8)
        if full:
            yield lambda: self.failures(a) >= tries or not self.is_master(a)
        else:
            yield lambda: self.waits(a) or not self.is_master(a)
            yield tries * 300 * MS
        failed = self.failures(a) >= 5 or self.waits(a)
        self.world.mark("covered.S12.failed" if failed else "covered.S12.deposed")
        for name in self.cluster.broker_names:
            if chance.randrange(2):
                self.set_clock(name, chance.randint(-4000, 4000))
        if chance.randrange(2):
            self.world.kill(self.host(a))
            yield lambda: self.is_master(*self.others(a))
        yield self.noise(0, 400)
        self.host(a).quota(None)
        self.mend()
        self.world.start(self.host(a))
        yield lambda: len(self.group().members) == 3
        yield self.noise(100, 500) + 100 * MS

    def failures(self, name: str) -> int:
        """Deliveries of the timer that failed in a row, at a broker that runs."""
        if self.host(name).process is None:
            return 0
        return self.secondary(name).timer.driver.core.statistics()["failures"]

    def waits(self, name: str) -> bool:
        """Whether a delivery of the timer's is in the log of a broker that runs, and not held."""
        process = self.host(name).process
        return process is not None and self.secondary(name).timer.driver.core.flying
