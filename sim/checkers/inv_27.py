"""INV-27: a delayed message is never early, is delivered, and again only in another tenure.

Delayed by a level, or for an exact time. "Early" is said by the wall clock of whoever delivers: it
must have reached the time that the broker which took the message wrote down. A level forgives a
clock that went back by more than the delay: such a message is due at once, as in RocketMQ.
Where no clock is ever set, hosts are apart by `skew_us` at most, and true time counts as well.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from epochmq.broker.outlet.core import Origin, Outcome
from epochmq.broker.schedule.core import BATCH_MAX
from epochmq.model.names import TIMER_TOPIC
from epochmq.store.draft import Draft
from sim.brokers import Broker
from sim.checkers.base import Checker
from sim.oracle import Oracle, Result
from sim.violation import Violation
from sim.workload import QUEUES, TOPICS, number_of, offset_of, read_all
from sim.world import MS, World

if TYPE_CHECKING:
    from sim.secondary import SecondaryBroker

LATE_MS = 2_000
"""In calm: a pause after a failure of before, a sync, a replica."""

SOON_MS = 3_000


class Due(NamedTuple):
    """Who took a message, and when it is due: by that host's wall clock, in true time."""

    host: str
    wall_ms: int
    true_us: int
    delay_ms: int
    """Of a level; 0 for an exact time."""


class Delayed(Checker):
    """Knows when each delayed message is due, and which ones came out."""

    rule = "INV-27"

    def __init__(self, oracle: Oracle, levels: int, skew_us: int | None) -> None:
        self.oracle = oracle
        self.levels = levels
        self.skew_us = skew_us
        """None: clocks are set."""
        self.due: dict[int, Due] = {}
        self.cancels: dict[int, int] = {}
        """number of a cancellation -> number of what it takes back."""
        self.out: set[int] = set()
        """What the outlet has acknowledged."""
        self.by_tenure: set[tuple[int, object]] = set()
        self.unsure: set[int] = set()
        """What may be delivered twice in one tenure; see `note_rolled`."""
        self.rolled: dict[int, set[object]] = {}
        self.put_in: dict[tuple[int, int], set[object]] = {}
        """(number, epoch) -> the tenures in which it was put."""
        self.masters = 0
        self.calm: dict[str, int] = {}
        """Host -> its wall clock when calm began."""

    def master_began(self, *_: object) -> None:
        self.masters += 1

    def delayed(self, broker: Broker, number: int, delay_ms: int) -> None:
        if number not in self.oracle.sends:
            return  # of a topic that is none of ours
        wall = broker.host.wall + delay_ms
        true_us = broker.world.time_us + delay_ms * MS
        self.due[number] = Due(broker.host.name, wall, true_us, delay_ms)

    def timed(self, broker: Broker, number: int, wall: int, cancels: str) -> None:
        if number not in self.oracle.sends:
            return
        true_us = broker.world.time_us + (wall - broker.host.wall) * MS
        self.due[number] = Due(broker.host.name, wall, true_us, 0)
        if cancels:
            self.cancels[number] = int(cancels[1:])

    def moves_on(self, broker: "SecondaryBroker", drafts: Sequence[Draft], origin: Origin) -> None:
        tenure = broker.tenure, broker.timer.hands.rebuilds
        for draft in drafts:
            self.note_rolled(draft, origin, tenure)
            number = _delivered(draft, origin)
            if number is None:
                continue
            if self.is_early(broker, self.due[number]):
                raise Violation(self.rule, f"message {number} is early", (broker.host.name,))
            self.put_in.setdefault((number, broker.epochs.last_epoch), set()).add(tenure)
            if number in self.cancels:
                text = f"message {number} is a cancellation, and is delivered"
                raise Violation(self.rule, text, (broker.host.name,))

    def is_early(self, broker: Broker, due: Due) -> bool:
        left = due.wall_ms - broker.host.wall
        if due.host == broker.host.name and left > 0 and (not due.delay_ms or left <= due.delay_ms):
            return True
        if due.delay_ms == 0 and left > 0:
            return True
        return self.skew_us is not None and broker.world.time_us + self.skew_us < due.true_us

    def moved_on(
        self,
        broker: "SecondaryBroker",
        drafts: Sequence[Draft],
        outcomes: Sequence[Outcome],
        origin: Origin,
        tenure: object,
    ) -> None:
        for draft, outcome in zip(drafts, outcomes, strict=True):
            number = _delivered(draft, origin)
            if number is None or outcome is not Outcome.STORED:
                continue
            self.out.add(number)
            self.check_late(broker, number)
            key = number, tenure, broker.timer.hands.rebuilds
            if key in self.by_tenure and number not in self.unsure:
                text = f"message {number} is delivered twice in one tenure"
                raise Violation(self.rule, text, (broker.host.name,))
            self.by_tenure.add(key)

    def note_rolled(self, draft: Draft, origin: Origin, tenure: object) -> None:
        """What explains that a message is delivered twice in one tenure: pieces of its wait from
        two, or from before and after the clock was set back and the wheel was made anew. That a put
        was not held in time explains nothing: it is waited for."""
        if origin is not Origin.TIMER or draft.topic != TIMER_TOPIC:
            return
        number = int(bytes(draft.body).partition(b":")[0])
        self.rolled.setdefault(number, set()).add(tenure)
        if len(self.rolled[number]) > 1:
            self.unsure.add(number)

    def check_late(self, broker: Broker, number: int) -> None:
        calm = self.calm.get(broker.host.name)
        if calm is not None:
            late = broker.host.wall - max(calm, self.due[number].wall_ms)
            if late > LATE_MS:
                text = f"message {number} is {late} ms late, and all is well"
                raise Violation(self.rule, text, (broker.host.name,))

    def is_soon(self, number: int, wall: int) -> bool:
        """Whether it should come out without any clock being set forward."""
        due = self.due[number]
        return due.delay_ms > 0 or due.wall_ms <= wall + SOON_MS

    @property
    def waiting(self) -> set[int]:
        """Acknowledged, and not out yet."""
        sends = self.oracle.sends
        return {n for n in self.due if sends[n].result is Result.OK} - self.out - self.may_stay

    @property
    def may_stay(self) -> set[int]:
        """Cancellations, and what they take back."""
        return {*self.cancels, *self.cancels.values()}

    def finish(self, world: World) -> None:
        again = 0
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                found = self.shown(host.process)
                self.judge(name, found)
                again = max(again, sum(map(len, found.values())) - len(found))
        world.marks["covered.delivered_again"] += again

    def shown(self, broker: Broker) -> dict[int, list[int]]:
        """The delayed messages that are in their queues: the epoch of each copy."""
        found: dict[int, list[int]] = {}
        for topic in TOPICS:
            for queue in range(QUEUES):
                for raw in read_all(broker.store, topic, queue):
                    number, entry = number_of(raw), broker.epochs.entry_at(offset_of(raw))
                    if number in self.due and entry is not None:
                        found.setdefault(number, []).append(entry.epoch)
        return found

    def judge(self, name: str, found: Mapping[int, Sequence[int]]) -> None:
        sends, stay = self.oracle.sends, self.may_stay
        lost = [n for n in self.due if sends[n].result is Result.OK and n not in found]
        lost = [n for n in lost if n not in stay]
        if lost:
            raise Violation(self.rule, f"delayed messages are lost: {sorted(lost)[:20]}", (name,))
        wrong = sorted(n for n in self.cancels if n in found)
        if wrong:
            raise Violation(self.rule, f"cancellations are delivered: {wrong[:20]}", (name,))
        for number in found.keys() - self.unsure:
            for epoch, copies in Counter(found[number]).items():
                if copies > len(self.put_in[number, epoch]):
                    text = f"message {number} is in the log {copies} times of epoch {epoch}"
                    raise Violation(self.rule, text, (name,))
        levels = [n for n, due in self.due.items() if due.delay_ms and n in found]
        again = sum(len(found[n]) - 1 for n in levels)
        if again > BATCH_MAX * self.levels * self.masters:
            raise Violation(self.rule, f"{again} deliveries too many", (name,))


def _delivered(draft: Draft, origin: Origin) -> int | None:
    """The number of a message that goes to its queue; None for a piece of a longer wait."""
    if origin not in (Origin.DELAYED, Origin.TIMER) or draft.topic not in TOPICS:
        return None
    return int(bytes(draft.body).partition(b":")[0])
