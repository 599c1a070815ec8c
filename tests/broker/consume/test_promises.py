"""What one member promised it keeps, in whatever order and how often messages come (INV-31).

The model is a list of promises and knows nothing of leases: a client that was told in time that it
has a queue counts on it, for a life from when it was asked for, until it gives the queue back or
the broker that asked says that nothing came of it. What the table keeps beyond that is its own
affair. A second model plays a client that speaks to one broker alone, and judges the answers as
linearizable or not, by trying all orders (Wing and Gong).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import count

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.tiers import examples

from epochmq.broker.consume.queue_locks import LIFE_MS, Attempt, QueueLocks
from epochmq.model.topic import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
CLIENTS = st.sampled_from(["one", "two"])
ASKERS = st.sampled_from(["0", "1"])
STEPS = st.sampled_from([1, 20_000, 44_999, LIFE_MS + 1])


@dataclass
class Promise:
    client: str
    attempt: Attempt
    until_ms: int


class Promises(RuleBasedStateMachine):
    """Numbers are given when something is said; it arrives later, or never, or twice."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = QueueLocks()
        self.disk = self.locks.encode()
        self.now = 0
        self.numbers = count(1)
        self.network: list[Callable[[], None]] = []
        self.promises: list[Promise] = []
        self.gave_back: dict[str, int] = {}
        self.failed: set[Attempt] = set()

    def _send(self, message: Callable[[], None], *, late: bool) -> None:
        if late:
            self.network.append(message)
        else:
            message()

    @rule(client=CLIENTS, asker=ASKERS, late=st.booleans())
    def ask(self, client: str, asker: str, late: bool) -> None:
        attempt = Attempt(asker, next(self.numbers))
        self._send(partial(self._vote, client, attempt, self.now), late=late)

    def _vote(self, client: str, attempt: Attempt, asked_ms: int) -> None:
        granted = self.locks.lock("g", [QUEUE], client, self.now, attempt)
        if self.locks.dirty:
            self.disk, self.locks.dirty = self.locks.encode(), False
        over = attempt in self.failed or attempt.number < self.gave_back.get(client, 0)
        if granted and not over:
            self.promises.append(Promise(client, attempt, asked_ms + LIFE_MS))

    @rule(client=CLIENTS, asker=ASKERS, late=st.booleans())
    def give_back(self, client: str, asker: str, late: bool) -> None:
        """The client stops before it says so, to whatever broker it takes for its master."""
        attempt = Attempt(asker, next(self.numbers))
        self.gave_back[client] = attempt.number
        self.promises = [p for p in self.promises if p.client != client]
        self._send(lambda: self._free(client, attempt), late=late)

    def _free(self, client: str, attempt: Attempt) -> None:
        self.locks.unlock("g", [QUEUE], client, attempt)

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """The broker that asked counted too few votes."""
        if self.promises:
            lost = data.draw(st.sampled_from(self.promises))
            self.failed.add(lost.attempt)
            self.promises = [p for p in self.promises if p.attempt != lost.attempt]
            self.network.append(lambda: self._undo(lost))

    def _undo(self, lost: Promise) -> None:
        self.locks.undo_locks("g", [QUEUE], lost.client, lost.attempt)

    @rule(data=st.data(), twice=st.booleans())
    def deliver(self, data: st.DataObject, twice: bool) -> None:
        if self.network:
            index = data.draw(st.integers(0, len(self.network) - 1))
            message = self.network[index] if twice else self.network.pop(index)
            message()

    @rule(step=STEPS)
    def wait(self, step: int) -> None:
        self.now += step
        self.locks.expire(self.now)

    @rule()
    def crash(self) -> None:
        """What was on its way is lost with the connections."""
        self.network.clear()
        self.locks = QueueLocks(start_ms=self.now)
        self.locks.load(msgspec.json.decode(self.disk))

    @invariant()
    def kept(self) -> None:
        for promise in self.promises:
            if promise.until_ms >= self.now:
                assert self.locks.owner("g", QUEUE, self.now) == promise.client, promise


TestPromises = Promises.TestCase
TestPromises.settings = settings(max_examples=examples(100), stateful_step_count=40)


def test_what_a_client_once_asked_another_broker_for_comes_late() -> None:
    """As a master that stood still carries it out; `locks` of the simulator, seed 58."""
    world = Promises()
    world.ask("one", "0", late=True)
    world.give_back("one", "0", late=True)
    world.ask("one", "1", late=False)
    while world.network:
        world.network.pop(0)()
        world.kept()
    assert world.promises


# Linearizable answers ------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """Called and returned at these times; `locked` is the answer, None for an unlock."""

    client: str
    called: int
    returned: int
    locked: bool | None


def linearizable(history: tuple[Operation, ...]) -> bool:
    """Whether some order of the operations, none before one that had returned when it was called,
    gives all their answers by one plain variable: who holds the lock."""

    @cache
    def search(left: frozenset[Operation], owner: str | None) -> bool:
        if not left:
            return True
        first_end = min(operation.returned for operation in left)
        for operation in left:
            if operation.called > first_end:
                continue
            mine = owner in (None, operation.client)
            if operation.locked is None:
                after = None if mine else owner
            elif operation.locked == mine:
                after = operation.client if mine else owner
            else:
                continue
            if search(left - {operation}, after):
                return True
        return False

    return search(frozenset(history), None)


def test_the_judge() -> None:
    one, two = Operation("one", 0, 4, True), Operation("two", 2, 6, True)
    assert linearizable((one, Operation("two", 2, 6, False)))
    assert not linearizable((one, two))
    assert linearizable((one, two, Operation("one", 1, 3, None)))
    assert not linearizable((one, two, Operation("one", 7, 8, None)))
    assert not linearizable((Operation("two", 0, 1, False), Operation("one", 2, 3, True)))


@given(
    wishes=st.lists(
        st.tuples(CLIENTS, st.booleans(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)),
        max_size=9,
    )
)
@settings(max_examples=examples(100))
def test_answers_are_linearizable(wishes: list[tuple[str, bool, int, int, int]]) -> None:
    """Calls overlap: each is carried out some time after it is made, and answered after that."""
    locks = QueueLocks()
    begun = []
    now = 0
    for client, locking, pause, way, back in wishes:
        now += pause
        begun.append((now + way, now, back, client, locking))
    history = []
    for serial, (at, called, back, client, locking) in enumerate(sorted(begun)):
        locked = None
        if locking:
            locked = locks.lock("g", [QUEUE], client, 0) == [QUEUE]
        else:
            locks.unlock("g", [QUEUE], client)
        history.append(Operation(client, 100 * called - 1, 100 * (at + back) + serial, locked))
    assert linearizable(tuple(history))
