"""Waiting for what is in the log: alone against a slow model, and under levels and exact times."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.become import become
from tests.broker.broker_harness import send
from tests.broker.delay.timers import TimerBroker
from tests.broker.slow import Slow
from tests.tiers import examples

from epochmq.broker.delay.delay_schedule import BATCH_MAX
from epochmq.broker.internal_writes.internal_writer import ASK_AGAIN_MS, PendingWrites
from epochmq.broker.serving.roles import Role


class Log:
    """Questions to a log whose replicas answer when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Callable[[bool], None]]] = []
        self.pending_writes = PendingWrites(lambda end, done: self.asked.append((end, done)))
        self.said: list[bool] = []

    def answer(self, ok: bool) -> None:
        self.asked.pop(0)[1](ok)


@pytest.fixture
def log() -> Log:
    return Log()


def test_what_is_held_in_time_is_told_at_once(log: Log) -> None:
    log.pending_writes.wait(10, log.said.append)
    log.answer(True)
    assert log.said == [True]
    assert (len(log.pending_writes), log.pending_writes.next_deadline()) == (0, None)


def test_what_is_not_is_asked_for_until_it_is(log: Log) -> None:
    log.pending_writes.wait(10, log.said.append)
    log.answer(False)
    assert log.pending_writes.next_deadline() == 0
    for now in (1_000, 1_000 + ASK_AGAIN_MS):
        log.pending_writes.tick(now - 1)
        assert bool(log.asked) is (now == 1_000)  # the first time at once
        log.pending_writes.tick(now)
        assert [end for end, _ in log.asked] == [10]
        log.pending_writes.tick(now + 9 * ASK_AGAIN_MS)  # it is being asked
        assert len(log.asked) == 1
        log.answer(False)
        log.pending_writes._ask_at = now + ASK_AGAIN_MS
        assert log.pending_writes.next_deadline() == now + ASK_AGAIN_MS
    log.pending_writes.tick(9_000)
    log.answer(True)
    assert log.said == [True]


def test_another_role_ends_it_at_the_next_tick(log: Log) -> None:
    log.pending_writes.wait(10, log.said.append)
    log.pending_writes.wait(20, log.said.append)
    log.pending_writes.wait(30, log.said.append)
    log.answer(False)
    log.pending_writes.role_changed()
    log.answer(False)
    log.answer(True)  # of another log, or of other bytes in this one
    assert (log.said, len(log.pending_writes)) == ([], 3)
    assert log.pending_writes.next_deadline() == 0
    log.pending_writes.tick(5)
    assert (log.said, log.asked) == ([False, False, False], [])
    assert (len(log.pending_writes), log.pending_writes.next_deadline()) == (0, None)


def test_a_broker_that_stops_keeps_nobody_waiting(log: Log) -> None:
    """Who waits may be a neighbour in its process, which goes on."""
    log.pending_writes.wait(10, log.said.append)
    log.pending_writes.wait(20, log.said.append)
    log.answer(False)
    log.pending_writes.stop()
    assert log.said == [False]
    log.answer(False)
    assert log.said == [False, False]
    assert (len(log.pending_writes), log.pending_writes.next_deadline()) == (0, None)


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_a_delivery_that_is_in_the_log_is_not_written_again(delay: dict[str, str]) -> None:
    """It was, at each retry: replicas that were slow for a minute had it dozens of times."""
    broker = TimerBroker()
    node = broker.node
    broker.put(b"a", b"b", **delay)
    slow = Slow(broker)

    def pass_time(ms: int) -> list[bytes]:
        for _ in range(ms // 100):
            broker.clock.step(100)
            node.delivery.tick(broker.clock.wall)
            broker.tick()
            node.pending_writes.tick(broker.clock.now)
            slow.answer(held=False)
        return broker.bodies()

    before = node.schedule.progress()[1], node.timer.driver.delivered  # type: ignore[union-attr]
    assert pass_time(60_000) == [b"a", b"b"]
    broker.put(b"c", **delay)
    assert pass_time(5_000) == [b"a", b"b"]  # nothing goes past them
    after = node.schedule.progress()[1], node.timer.driver.delivered  # type: ignore[union-attr]
    assert before == after
    assert len(node.pending_writes) == 1
    del node.when_kept
    node.pending_writes.tick(broker.clock.now + ASK_AGAIN_MS)
    assert pass_time(3_000) == [b"a", b"b", b"c"]
    done = node.schedule.progress()[1], node.timer.driver.delivered  # type: ignore[union-attr]
    assert sum(done) == sum(before) + 3


class Waits(RuleBasedStateMachine):
    """Against a list of who waits: (end, role, number), and what each was told."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.now = self.role = 0
        self.held = 0
        self.waits: list[tuple[int, int]] = []
        self.told: dict[int, list[bool]] = {}

    @rule(end=st.integers(1, 50))
    def wait(self, end: int) -> None:
        number = len(self.waits)
        self.waits.append((end, self.role))
        self.log.pending_writes.wait(end, lambda ok: self._told(number, ok))

    def _told(self, number: int, ok: bool) -> None:
        end, role = self.waits[number]
        self.told.setdefault(number, []).append(ok)
        assert end <= self.held and role == self.role if ok else role < self.role

    @rule(by=st.integers(1, 20))
    def hold(self, by: int) -> None:
        self.held += by

    @rule(at=st.integers(0, 9))
    def answer(self, at: int) -> None:
        if at < len(self.log.asked):
            end, done = self.log.asked.pop(at)
            done(end <= self.held)

    @rule()
    def change_role(self) -> None:
        self.role += 1
        self.log.pending_writes.role_changed()

    @rule(ms=st.integers(0, 2 * ASK_AGAIN_MS))
    def tick(self, ms: int) -> None:
        self.now += ms
        self.log.pending_writes.tick(self.now)

    @invariant()
    def nobody_is_told_twice_or_forgotten(self) -> None:
        assert all(len(said) == 1 for said in self.told.values())
        waiting = len(self.log.asked) + len(self.log.pending_writes)
        assert waiting == len(self.waits) - len(self.told)

    def teardown(self) -> None:
        self.held = 1 << 40
        for _ in range(2):
            self.tick(ASK_AGAIN_MS)
            while self.log.asked:
                self.answer(0)
        assert len(self.told) == len(self.waits)


TestWaits = Waits.TestCase
TestWaits.settings = settings(max_examples=examples(60), stateful_step_count=40)


STEPS = 40


class Slowly(RuleBasedStateMachine):
    """A broker with delayed and timed messages whose replicas take the log when they like."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = TimerBroker()
        self.node = self.broker.node
        self.node.when_kept = self._asked  # type: ignore[method-assign]
        self.asked: list[tuple[int, Callable[[bool], None]]] = []
        self.held = 0
        self.sent = 0
        self.roles = 0
        self.tick()

    def _asked(self, end: int, done: Callable[[bool], None]) -> None:
        self.asked.append((end, done))

    @rule(count=st.integers(1, 40), delay=st.sampled_from(["DELAY", "TIMER_DELAY_MS"]))
    def send(self, count: int, delay: str) -> None:
        client = self.broker.client()
        value = "1" if delay == "DELAY" else "700"
        names = range(self.sent, self.sent + count)
        client.put(*(send(b"%d" % n, properties={delay: value}) for n in names))
        self.broker.turn()
        self.sent += count

    @rule(ms=st.integers(0, 1200))
    def tick(self, ms: int = 0) -> None:
        broker, node = self.broker, self.node
        broker.clock.step(ms)
        node.delivery.tick(broker.clock.wall)
        broker.tick()
        node.pending_writes.tick(broker.clock.now)

    @rule(some=st.integers(1, 9))
    def replicas_take(self, some: int) -> None:
        """Some tenths of what they lack."""
        self.held += (self.broker.store.pointers.appended - self.held) * some // 10

    @rule(at=st.integers(0, 5))
    def answer(self, at: int) -> None:
        if at < len(self.asked):
            end, done = self.asked.pop(at)
            done(end <= self.held)

    def copies(self) -> Counter[bytes]:
        return Counter(self.broker.bodies())

    @invariant()
    def nothing_is_delivered_twice(self) -> None:
        assert max(self.copies().values(), default=1) == 1 or self.roles

    @invariant()
    def progress_moves_behind_what_is_held(self) -> None:
        """Of the level what is before it lies in the log that replicas have."""
        done = self.node.schedule.progress()[1]
        queue = [raw for n in range(4) for raw in self._records(n)]
        mine = [m for m in queue if "DELAY" in m.properties and m.offset < self.held]
        assert done <= len(mine)

    def _records(self, queue_id: int):  # type: ignore[no-untyped-def]
        return self.broker.stored("T", queue_id)

    @invariant()
    def little_waits(self) -> None:
        """One batch of the level, one of the timer, and those of earlier roles."""
        assert len(self.asked) + len(self.node.pending_writes) <= 2 + 2 * self.roles

    def bring_it_out(self) -> None:
        for _ in range(60):
            self.held = self.broker.store.pointers.appended
            while self.asked:
                self.answer(0)
            self.tick(400)

    def teardown(self) -> None:
        """In the end all is there, and once."""
        self.bring_it_out()
        found = self.copies()
        assert set(found) == {b"%d" % n for n in range(self.sent)}
        self.nothing_is_delivered_twice()


class SlowlyInRoles(Slowly):
    """The same with other roles between: what is under way then may come twice, and no more."""

    @rule()
    def stand_down_and_lead(self) -> None:
        self.roles += 1
        for role in (Role.FENCED, Role.MASTER):
            become(self.node, role)
            self.broker.delivers = role is Role.MASTER
            self.broker.tick()

    def teardown(self) -> None:
        super().teardown()
        again = sum(self.copies().values()) - self.sent
        assert again <= self.roles * 2 * BATCH_MAX


@pytest.mark.parametrize("delay", ["DELAY", "TIMER_DELAY_MS"])
def test_the_longest_row_of_sends_comes_out(delay: str) -> None:
    """All of it in one queue: a `BrokerHarness.stored` that read 1,000 messages found some
    missing."""
    machine = Slowly()
    for _ in range(STEPS):
        machine.send(40, delay)
    machine.teardown()
    assert machine.sent == STEPS * 40 > 1_000


TestSlowly = Slowly.TestCase
TestSlowly.settings = settings(max_examples=examples(40), stateful_step_count=STEPS)
TestSlowlyInRoles = SlowlyInRoles.TestCase
TestSlowlyInRoles.settings = settings(max_examples=examples(25), stateful_step_count=30)
