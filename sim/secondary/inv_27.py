"""INV-27: a delayed message is never early, is delivered, and twice only if it was in flight.

Delayed by a level, or for an exact time. Delivered twice only at a change of role or a restart, and
then only what was in flight: its put was not answered, or not all of its batch was held, or the
progress behind it was not saved and copied yet. So in one tenure nothing comes twice. A piece of a
longer wait that was in flight is two messages afterwards, and each is delivered. A clock that is
set and a wheel that is created again repeat nothing.

"Early" is said by the wall clock of whoever delivers: it
must have reached the time that the broker which took the message wrote down. A level forgives a
clock that went back by more than the delay: such a message is due at once, as in RocketMQ.
Where no clock is ever set, hosts are apart by `skew_us` at most, and true time counts as well.

In calm it is at most 2 s late. Of a level that counts from when it and all in front of it there are
due by store times: a level delivers in order, and store times stand still for a clock that went
back by less than 3 s.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.model import record
from epochmq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from epochmq.model.properties import find
from epochmq.model.property_names import TIMER_ROLL_TIMES
from epochmq.store.draft import Draft
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.oracle import Oracle, Result
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, offset_of, read_all
from sim.kernel.world import MS, World

if TYPE_CHECKING:
    from sim.secondary.secondary_broker import SecondaryBroker

LATE_MS = 2_000
"""In calm: a pause after a failure of before, a sync, a replica."""

STAND_MS = 3_000
"""Store times stand still for a clock that went back by less than this."""

SOON_MS = 3_000


class Due(NamedTuple):
    """Who took a message, and when it is due: by that host's wall clock, in true time."""

    host: str
    wall_ms: int
    true_us: int
    delay_ms: int
    """Of a level; 0 for an exact time."""


class Piece(NamedTuple):
    """A message in the timer topic: as it came, or one piece of its wait later."""

    number: int
    rolled: int


class Delayed(Checker):
    """Knows when each delayed message is due, and which ones came out."""

    rule = "INV-27"

    def __init__(self, oracle: Oracle, skew_us: int | None) -> None:
        self.oracle = oracle
        self.skew_us = skew_us
        """None: clocks are set."""
        self.due: dict[int, Due] = {}
        self.cancels: dict[int, int] = {}
        """number of a cancellation -> number of what it takes back."""
        self.out: set[int] = set()
        """What the internal writer has acknowledged."""
        self.by_tenure: Counter[tuple[Piece, bool, object]] = Counter()
        """How often a piece of a wait, or what came of the last one, was stored in a tenure."""
        self.handed_on: Counter[Piece] = Counter()
        """How often a piece was put into the timer topic, and may be there."""
        self.put_in: dict[tuple[int, int], set[tuple[Piece, object]]] = {}
        """(number, epoch) -> of which piece, and in which tenures, it was put."""
        self.calm: dict[str, int] = {}
        """Host -> its wall clock when calm began."""

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
        tenure = broker.tenure
        for draft in drafts:
            number = _delivered(draft, origin)
            if number is None:
                self.hand_on(draft, origin, 1)
                continue
            if self.is_early(broker, self.due[number]):
                raise Violation(self.rule, f"message {number} is early", (broker.host.name,))
            self.put_in.setdefault((number, broker.epochs.last_epoch), set()).add(
                (_piece(draft), tenure)
            )
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
        outcomes: Sequence[WriteOutcome],
        origin: Origin,
        tenure: object,
    ) -> None:
        for draft, outcome in zip(drafts, outcomes, strict=True):
            number, rolls = _delivered(draft, origin), _rolls(draft, origin)
            if outcome is not WriteOutcome.STORED:
                if broker.tenure == tenure:  # it is not in the log, and never will be
                    self.hand_on(draft, origin, -1)
                continue
            if number is not None:
                self.out.add(number)
                self.check_late(broker, number)
            if number is not None or rolls:
                self.judge_put(broker, _piece(draft), tenure, rolls=rolls)

    def hand_on(self, draft: Draft, origin: Origin, count: int) -> None:
        if _rolls(draft, origin):
            self.handed_on[_piece(draft)] += count

    def chains(self, piece: Piece) -> int:
        """How many there are of a piece: one, but those that were in flight."""
        return self.handed_on[piece] if piece.rolled else 1

    def judge_put(self, broker: Broker, piece: Piece, tenure: object, *, rolls: bool) -> None:
        """Each there is of a piece goes out once in one tenure, as a message or the next piece."""
        key = piece, rolls, tenure
        self.by_tenure[key] += 1
        before = piece._replace(rolled=piece.rolled - 1) if rolls else piece
        if self.by_tenure[key] > self.chains(before):
            what = f"piece {piece.rolled} of message" if rolls else "message"
            text = f"{what} {piece.number} is delivered twice in one tenure"
            raise Violation(self.rule, text, (broker.host.name,))

    def check_late(self, broker: "SecondaryBroker", number: int) -> None:
        calm = self.calm.get(broker.host.name)
        if calm is None:
            return
        due, wall = self.due[number], broker.host.wall
        since = max(calm, due.wall_ms)
        if wall - since > LATE_MS and due.delay_ms and self.skew_us is None:
            since = max(since, due_in_level(self.level_of(broker, number), self.due, number))
        if wall - since > LATE_MS:
            text = f"message {number} is {wall - since} ms late, and all is well"
            raise Violation(self.rule, text, (broker.host.name,))

    def level_of(self, broker: "SecondaryBroker", number: int) -> list[tuple[int, int]]:
        """Number and store time of all that is, or was, in the level of a message."""
        for queue in range(broker.owned.schedule.level_max):
            found = read_all(broker.store, SCHEDULE_TOPIC, queue)
            level = [(number_of(raw), record.decode(raw).store_wall_ms) for raw in found]
            if any(number == one for one, _ in level):
                return level
        return []

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
        for number in found:
            for epoch, copies in Counter(found[number]).items():
                if copies > sum(self.chains(piece) for piece, _ in self.put_in[number, epoch]):
                    text = f"message {number} is in the log {copies} times of epoch {epoch}"
                    raise Violation(self.rule, text, (name,))


def due_in_level(level: Iterable[tuple[int, int]], due: Mapping[int, Due], number: int) -> int:
    """When a message and all in front of it in its level are due by store times; 0: not there.

    No store time is further ahead of who took the message than it may stand still for.
    """
    latest = found = 0
    for one, store_ms in level:
        if one in due:
            taken = due[one].wall_ms - due[one].delay_ms
            latest = max(latest, min(store_ms, taken + STAND_MS) + due[one].delay_ms)
        if one == number:
            found = latest
    return found


def _delivered(draft: Draft, origin: Origin) -> int | None:
    """The number of a message that goes to its queue; None for a piece of a longer wait."""
    if origin not in (Origin.DELAYED, Origin.TIMER) or draft.topic not in TOPICS:
        return None
    return int(bytes(draft.body).partition(b":")[0])


def _rolls(draft: Draft, origin: Origin) -> bool:
    """Whether a piece of a longer wait is over, and the next one begins."""
    return origin is Origin.TIMER and draft.topic == TIMER_TOPIC


def _piece(draft: Draft) -> Piece:
    number = int(bytes(draft.body).partition(b":")[0])
    return Piece(number, int(find(draft.properties, TIMER_ROLL_TIMES.encode()) or 0))
