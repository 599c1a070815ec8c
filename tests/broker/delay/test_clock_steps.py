"""A wall clock that is set, alone or with restarts and hand-overs between, repeats nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.broker.delay.timers import TimerBroker
from tests.broker.slow import Slow
from tests.tiers import examples

from epochmq.base.errors import DiskFull
from epochmq.broker.delay.timed_messages import BACK_MS, Timer
from epochmq.broker.delay.timer_service import TimerProgress
from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.model.message import StoredMessage
from epochmq.model.names import TIMER_TOPIC
from epochmq.store.draft import Draft
from epochmq.store.timer.timer_checkpoint import FILE as CHECKPOINT
from epochmq.store.timer.timer_checkpoint import OLDER_MAX, OlderProgress, decode, decode_older
from epochmq.store.timer.timer_log import FOLDER
from epochmq.store.timer.wheel import FILE
from epochmq.wire.bodies.controller_bodies import EpochEntryBody

HOUR_MS = 3_600_000


def restart(broker: TimerBroker, *, rebuilds: bool = False) -> TimerBroker:
    """A process that saved is killed; `rebuilds`: its wheel is lost."""
    broker.save()
    disk = broker.disk.kill()
    if rebuilds:
        disk.remove(FILE)
        disk.remove(FOLDER)
    return broker.again(disk)


def hand_over(broker: TimerBroker) -> TimerBroker:
    """A replica that has the log, and the master's word of now."""
    word = broker.timer.progress.answer()
    disk = broker.disk.kill()
    for name in (FILE, FOLDER, CHECKPOINT):
        disk.remove(name)
    after = broker.again(disk)
    after.delivers = False
    after.timer.progress.adopt(word)
    after.tick(2)
    after.delivers = True
    return after


def set_clock(broker: TimerBroker, ms: int) -> None:
    """The wall clock is set; slots that are over are emptied first, which a save does."""
    broker.clock.wall += ms
    broker.tick(2)
    broker.save()
    broker.tick(2)


@pytest.mark.parametrize("rebuilds", [False, True])
def test_a_restart_between_two_clock_steps_repeats_nothing(rebuilds: bool) -> None:
    """Found by the simulator (world hard, seed 20261123002): all of the span came again."""
    broker = TimerBroker()
    broker.put(b"a", b"b", TIMER_DELAY_MS=1500)
    assert broker.run(2000) == [b"a", b"b"]
    set_clock(broker, -20_000)
    broker.put(b"c", TIMER_DELAY_MS=1000)
    broker = restart(broker, rebuilds=rebuilds)
    broker.delivers = True
    set_clock(broker, 20_000)
    assert broker.run(5000) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("cancels", [False, True])
def test_what_hung_as_far_away_as_the_wheel_reached_comes_once(cancels: bool) -> None:
    """Found by the simulator (world hard, seed 70158): the message and a piece of its wait."""
    broker = TimerBroker()
    broker.run(1000)
    broker.put(b"x", TIMER_DELAY_MS=62_000 + HOUR_MS)
    set_clock(broker, HOUR_MS)
    broker.put(b"a", TIMER_DELAY_MS=62_000)
    if cancels:
        broker.put(b"k", TIMER_DELAY_MS=62_000, TIMER_DEL_UNIQKEY="T+none")
    set_clock(broker, -HOUR_MS)
    assert broker.run(63_000, 500) == []  # the slot that was the farthest is over
    set_clock(broker, HOUR_MS)
    broker.timer.driver.rebuild()
    assert sorted(broker.run(70_000, 500)) == [b"a", b"x"]
    kept = [message.body for message in broker.stored(TIMER_TOPIC)]
    assert kept.count(b"a") <= 1 + (62_000 // 60_000)  # pieces by its own time only


@pytest.mark.parametrize("late_ms", [1000, 5000, 50_000, 200_000])
def test_the_farthest_slot_is_opened_with_others(late_ms: int) -> None:
    """Found by the simulator (world secondary, seed 700238): what hung there was hung up again into
    the slots that are open together, for ever."""
    broker = TimerBroker(timer_roll_window_slot=4)
    broker.run(1000)
    broker.put(b"near", TIMER_DELAY_MS=HOUR_MS + 2000)
    broker.put(b"far", TIMER_DELAY_MS=2 * HOUR_MS)
    set_clock(broker, -2 * HOUR_MS)
    broker.run(1000)
    for n in range(3):
        broker.put(b"%d" % n, TIMER_DELAY_MS=1000 * n + 500)
    broker.timer.driver.rebuild()
    broker.tick()
    hung = broker.timer.driver.files.log.end
    assert broker.run(4000 + late_ms, 4000 + late_ms) == [b"0", b"1", b"2"]
    broker.tick(100)
    assert broker.timer.driver.files.log.end - hung <= 20 * 52
    set_clock(broker, 5 * HOUR_MS)
    assert sorted(broker.run(20_000, 1000)) == [b"0", b"1", b"2", b"far", b"near"]


def test_a_replica_that_takes_over_between_two_clock_steps_repeats_nothing() -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=1500)
    assert broker.run(2000) == [b"a"]
    set_clock(broker, -20_000)
    broker = hand_over(broker)
    set_clock(broker, 20_000)
    assert broker.run(5000) == [b"a"]


def test_a_piece_that_went_out_of_a_slot_that_is_open_again_goes_out_once() -> None:
    broker = TimerBroker()
    broker.run(500)
    broker.put(b"far", TIMER_DELAY_MS=150_000)
    broker.run(60_200)
    assert len(broker.stored(TIMER_TOPIC)) == 2
    set_clock(broker, -10_000)
    broker = restart(broker)
    broker.run(15_000)
    assert len(broker.stored(TIMER_TOPIC)) == 2


@pytest.mark.parametrize("change", [{"log_end": 1 << 40}, {"epoch": 4}])
def test_older_progress_over_a_log_that_was_cut_counts_no_more(change: dict[str, int]) -> None:
    """Rather once more than never: what was delivered was cut off with it."""
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=1500)
    assert broker.run(2000) == [b"a"]
    set_clock(broker, -20_000)
    core = broker.timer.driver.core
    core._older = [row._replace(**change) for row in core.older]
    broker.delivers = False
    broker.tick(2)
    broker.delivers = True
    broker.tick(2)
    assert core.older == []
    assert broker.timer.driver.rebuilds == 1
    set_clock(broker, 20_000)
    assert broker.run(2000) == [b"a", b"a"]


def test_after_a_power_cut_that_took_deliveries_older_progress_says_nothing() -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=1500)
    assert broker.run(2000) == [b"a"]
    set_clock(broker, -20_000)
    (row,) = broker.timer.driver.core.older
    assert row.log_end == broker.store.pointers.appended
    broker.save()
    data = broker.disk.read_file(CHECKPOINT)
    assert data is not None
    found, older = decode(data, 1000), decode_older(data)
    assert found is not None
    for log_end, kept in ((row.log_end, [row]), (row.log_end - 1, [])):
        core = Timer(1000, 60)
        TimerProgress(core, lambda log_end=log_end: log_end).begin(found, older)
        assert core.older == kept


def test_a_late_one_and_one_too_far_away() -> None:
    """While a late one waits nothing new counts: what was hung up again would be lost."""
    broker = TimerBroker()
    broker.put(b"far", TIMER_DELAY_MS=50_000)
    set_clock(broker, -HOUR_MS)
    core = broker.timer.driver.core
    broker.timer.driver.rebuild()
    broker.run(1000)
    core._late_ms = core.read_ms + 2 * HOUR_MS
    assert broker.run(62_000, 500) == []
    assert broker.timer.driver.rebuilds == 2
    broker = restart(broker)
    set_clock(broker, HOUR_MS - 63_000)
    assert broker.run(60_000, 500) == [b"far"]


def late_ones_in_the_open_slot(
    late_ms: Sequence[int], back_ms: int
) -> tuple[TimerBroker, list[bytes]]:
    """A broker whose clock goes back while late ones lie in the open slot; all its messages."""
    broker = TimerBroker(timer_roll_window_slot=4)
    broker.run(20_700)
    bodies = [b"far"]
    with refusing(broker):
        for ms in late_ms:  # before the slot that is open now
            bodies.append(b"late %d" % ms)
            at = broker.clock.wall // 1000 * 1000 - ms
            put_late(broker, bodies[-1], at)
        broker.run(100)
        assert broker.timer.driver.core.size == len(late_ms)
        broker.put(b"far", TIMER_DELIVER_MS=broker.clock.wall + 3000 + back_ms // 2)
        set_clock(broker, -back_ms)
    return broker, bodies


def put_late(broker: TimerBroker, body: bytes, due: int) -> None:
    """A message whose time was over when the wheel came to it: the clock was behind then."""
    wall = broker.clock.wall
    broker.clock.wall = min(wall, due - 1)
    broker.put(body, TIMER_DELIVER_MS=due)
    broker.clock.wall = wall


@contextmanager
def refusing(broker: TimerBroker) -> Iterator[None]:
    """The internal writer keeps nothing."""
    route = broker.node.internal_writer.route
    broker.node.internal_writer.route = SimpleNamespace(put=later)  # type: ignore[assignment]
    yield
    broker.node.internal_writer.route = route


def later(drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
    done([WriteOutcome.LATER] * len(drafts))


BACK = (BACK_MS + 1, 20_000, 511_000, HOUR_MS)
"""Just not to be forgiven, to the start, hardly within the wheel's reach, far beyond it."""


@pytest.mark.parametrize("goes_on", ["", "restart", "wheel created again", "hand over"])
@pytest.mark.parametrize("late_ms", [[0], [999], [1000, 15_000], [0, 1, 2500]])
@pytest.mark.parametrize("back_ms", BACK)
def test_late_ones_in_the_open_slot_when_the_clock_goes_back(
    back_ms: int,
    late_ms: list[int],
    goes_on: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each comes once, and not early; one that rolls meanwhile finds late ones in a slot ahead."""
    broker, bodies = late_ones_in_the_open_slot(late_ms, back_ms)
    if goes_on == "hand over":
        broker.save()
        broker = hand_over(broker)
    elif goes_on:
        broker = restart(broker, rebuilds=goes_on != "restart")
    broker.delivers = True
    due = {body: int(m.properties["TIMER_DELIVER_MS"]) for body, m in waiting(broker).items()}
    for step_ms in [1000] * 10 + [back_ms // 4] * 3 + [5000] * 4:
        before = set(broker.bodies())
        early = [b for b in broker.run(step_ms, step_ms) if b not in before]
        assert [b for b in early if due.get(b, 0) > broker.clock.wall] == []
    set_clock(broker, back_ms)
    assert sorted(broker.run(20_000, 500)) == sorted(bodies)
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == []


def waiting(broker: TimerBroker) -> dict[bytes, StoredMessage]:
    """The messages of the timer topic, each as it came."""
    return {m.body: m for m in reversed(broker.stored(TIMER_TOPIC))}


def test_a_full_disk_while_one_is_hung_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = TimerBroker()
    broker.put(b"far", TIMER_DELAY_MS=50_000)
    set_clock(broker, -HOUR_MS)
    broker.timer.driver.rebuild()
    broker.run(59_000, 500)
    with monkeypatch.context() as patched:
        patched.setattr(broker.timer.driver.files, "add", refuse)
        broker.run(3000, 500)
    assert not broker.timer.driver.core.flying
    set_clock(broker, HOUR_MS - 62_000)
    assert broker.run(60_000, 500) == [b"far"]


def refuse(*_: object) -> list[int]:
    raise DiskFull("no room")


def test_the_epoch_of_a_byte() -> None:
    node = TimerBroker().node
    assert node._epoch_before(5) == -1
    entries = [EpochEntryBody(3, 0), EpochEntryBody(4, 100), EpochEntryBody(7, 100)]
    node.replica = SimpleNamespace(epochs=lambda: entries)  # type: ignore[assignment]
    assert [node._epoch_before(offset) for offset in (0, 1, 100, 101)] == [-1, 3, 3, 7]


class Machine(RuleBasedStateMachine):
    """A broker whose clock is set at random; each message comes once, and not early."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = TimerBroker()
        self.due: dict[bytes, int] = {}
        self.last_wall = 0
        self.steps_back = 0

    @rule(delays=st.lists(st.integers(1, 90_000), min_size=1, max_size=4))
    def send(self, delays: list[int]) -> None:
        for delay in delays:
            body = b"%d" % len(self.due)
            self.due[body] = self.broker.clock.wall + delay
            self.broker.put(body, TIMER_DELAY_MS=delay)

    @rule(ms=st.integers(1, 5000))
    def wait(self, ms: int) -> None:
        before = set(self.broker.bodies())
        bodies = self.broker.run(ms, 500)
        assert len(bodies) == len(set(bodies)), "twice"
        early = [b for b in bodies if b not in before and self.due[b] > self.broker.clock.wall]
        assert not early

    @precondition(lambda self: self.steps_back < OLDER_MAX)
    @rule(ms=st.integers(1, 100_000))
    def step_back(self, ms: int) -> None:
        self.steps_back += 1
        set_clock(self.broker, -ms)

    @rule(ms=st.integers(1, 100_000))
    def step_on(self, ms: int) -> None:
        set_clock(self.broker, ms)

    @rule(rebuilds=st.booleans())
    def restart(self, rebuilds: bool) -> None:
        self.broker = restart(self.broker, rebuilds=rebuilds)

    @rule()
    def rebuild(self) -> None:
        self.broker.timer.driver.rebuild()

    @rule()
    def rest_and_go_on(self) -> None:
        broker = self.broker
        broker.save()
        broker.delivers = False
        broker.tick()
        broker.delivers = True

    @rule()
    def hand_over(self) -> None:
        self.broker = hand_over(self.broker)

    def teardown(self) -> None:
        latest = max([self.broker.clock.wall, *self.due.values()])
        for _ in range(5):
            set_clock(self.broker, max(0, latest - self.broker.clock.wall) // 2)
            self.broker.run(20_000, 1000)
        set_clock(self.broker, max(0, latest - self.broker.clock.wall))
        bodies = self.broker.run(200_000, 2000)
        assert sorted(bodies) == sorted(self.due), "lost or twice"


def test_a_wheel_created_again_while_something_is_under_way_repeats_nothing() -> None:
    broker = TimerBroker()
    slow = Slow(broker)
    broker.put(b"a", TIMER_DELAY_MS=500)
    assert broker.run(1500) == [b"a"]  # in the log, and no replica has it
    broker.timer._sync_failed = True
    broker.run(1000)
    assert broker.timer.driver.rebuilds == 0
    assert broker.timer.next_deadline(broker.clock.wall) is None
    slow.answer(held=True)
    assert broker.timer.next_deadline(broker.clock.wall) == broker.clock.wall
    assert broker.run(2000) == [b"a"]
    assert broker.timer.driver.rebuilds == 1


def test_an_answer_carries_older_progress() -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=1500)
    broker.run(2000)
    assert len(broker.timer.progress.answer()) == 56
    wall = broker.timer.driver.core.done_ms
    set_clock(broker, -20_000)
    (row,) = decode_older(broker.timer.progress.answer())
    assert row[:2] == (wall, 1)
    assert isinstance(row, OlderProgress)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(40), stateful_step_count=20)
