"""INV-27: a delayed message is never early, is delivered, and seldom twice."""

from collections import Counter
from collections.abc import Sequence

from epochmq.broker.outlet.core import Outcome
from epochmq.broker.schedule.core import BATCH_MAX
from epochmq.store.draft import Draft
from sim.brokers import Broker
from sim.checkers.base import Checker
from sim.oracle import Oracle, Result
from sim.violation import Violation
from sim.workload import QUEUES, TOPICS, number_of, read_all
from sim.world import MS, World


class Delayed(Checker):
    """Knows when each delayed message was stored, and which ones came out.

    `skew_us` bounds how far two hosts' wall clocks are apart; on the host that stored a message it
    may not come out one millisecond early.
    """

    rule = "INV-27"

    def __init__(self, oracle: Oracle, levels: int, skew_us: int) -> None:
        self.oracle = oracle
        self.levels = levels
        self.skew_us = skew_us
        self.due: dict[int, tuple[str, int, int]] = {}
        """number -> host that stored it, its wall clock and true time (us) when it is due."""
        self.out: set[int] = set()
        """What the outlet has acknowledged."""
        self.masters = 0

    def master_began(self, *_: object) -> None:
        self.masters += 1

    def delayed(self, broker: Broker, number: int, delay_ms: int) -> None:
        wall = broker.host.wall + delay_ms
        self.due[number] = broker.host.name, wall, broker.world.time_us + delay_ms * MS

    def moves_on(self, broker: Broker, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            number = int(bytes(draft.body).partition(b":")[0])
            name, wall, true_us = self.due[number]
            early = broker.host.wall < wall
            if name != broker.host.name:
                early = broker.world.time_us + self.skew_us < true_us
            if early:
                raise Violation(self.rule, f"message {number} is early", (broker.host.name,))

    def moved_on(
        self, _broker: Broker, drafts: Sequence[Draft], outcomes: Sequence[Outcome]
    ) -> None:
        for draft, outcome in zip(drafts, outcomes, strict=True):
            if outcome is Outcome.STORED:
                self.out.add(int(bytes(draft.body).partition(b":")[0]))

    @property
    def waiting(self) -> set[int]:
        """Acknowledged, and not out yet."""
        sends = self.oracle.sends
        return {n for n in self.due if sends[n].result is Result.OK} - self.out

    def finish(self, world: World) -> None:
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                self.judge(name, self.shown(host.process))

    def shown(self, broker: Broker) -> Counter[int]:
        """How often each message is in its queue."""
        found: Counter[int] = Counter()
        for topic in TOPICS:
            for queue in range(QUEUES):
                found.update(number_of(r) for r in read_all(broker.store, topic, queue))
        return found

    def judge(self, name: str, found: Counter[int]) -> None:
        lost = [n for n in self.due if self.oracle.sends[n].result is Result.OK and not found[n]]
        if lost:
            raise Violation(self.rule, f"delayed messages are lost: {sorted(lost)[:20]}", (name,))
        again = sum(found[n] - 1 for n in self.due if found[n] > 1)
        if again > BATCH_MAX * self.levels * self.masters:
            raise Violation(self.rule, f"{again} deliveries too many", (name,))
