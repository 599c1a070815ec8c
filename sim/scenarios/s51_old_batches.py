"""S51: a master dies, is back with older batches of ordered pops, and follows before others know.

The next master is elected and, as the other replica, is told late: both go on asking the address
that they know, where the process that was started again follows already. Expected: it tells them
nothing, so what was acknowledged in order, and copied by them, is not handed out again.
"""

from collections.abc import Iterator

from epochmq.broker.serving.roles import Role
from sim.popping.popping_world import PoppingHistory
from sim.scenarios.later_story import LaterStory
from sim.scenarios.script import Step


class Story(LaterStory, PoppingHistory):
    name = "S51"
    kinds_sent = ("plain",)
    with_pops = True

    def script(self) -> Iterator[Step]:
        for _ in range(3):
            yield lambda: len(self.members()) == 3
            a, more = self.master(), self.acked() + 5
            others = tuple(self.others(a))
            yield lambda n=more: self.acked() >= n  # type: ignore[misc]
            self.cut_way(self.controllers, others)
            number = self.broker(a).membership.broker_id
            self.world.kill(self.host(a))
            yield lambda n=number: self.group().master not in (None, n)  # type: ignore[misc]
            self.world.start(self.host(a))
            yield lambda a=a: self.follows(a)  # type: ignore[misc]
            yield self.noise(30, 200)
            self.mend()
            yield lambda names=others: self.is_master(*names)  # type: ignore[misc]
            yield self.noise(100, 500)

    def acked(self) -> int:
        """Messages that were acknowledged in order."""
        return self.world.marks["covered.ordered_acked"]

    def follows(self, name: str) -> bool:
        role = self.secondary(name).owned.serving.role
        return role in (Role.SLAVE, Role.LEARNER)
