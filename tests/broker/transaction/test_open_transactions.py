"""Which transactions are open: by examples, and against a slow model of the queues by Hypothesis.

The model keeps the log as a list of what was written and crashes at any point. It knows nothing of
windows, states or progress: it reads the whole log each time it is asked something.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.tiers import examples

from epochmq.base.errors import OurBug
from epochmq.broker.transaction import open_transactions as module
from epochmq.broker.transaction.open_transactions import (
    Half,
    HalfMessageState,
    OpProgress,
    ReadHalfMessages,
    Terms,
    Transactions,
    Why,
)

WALL = 1_700_000_000_000
TERMS = Terms(timeout_ms=6_000, interval_ms=30_000, checks_max=3, kept_ms=3_600_000)


def half(at: int, origin: int | None = None, **more: int) -> Half:
    first = at if origin is None else origin
    return Half(at, at * 100, 100, first, "G", more.pop("born_wall_ms", WALL), **more)


def ready(*halves: Half, terms: Terms = TERMS, now: int = 0) -> Transactions:
    core = Transactions(terms)
    core.begin(now, OpProgress(0, 0), 0)
    for one in halves:
        core.took_half(one)
    core.caught_up()
    return core


def end(core: Transactions, at: int, now: int = 0, *, committed: bool = True) -> Half:
    found = core.find(at)
    assert found is not None
    core.busy(found)
    core.done(found, now, committed=committed)
    return found


# What is open ----------------------------------------------------------------------------------


def test_it_is_known_what_is_open_after_reading_both_queues() -> None:
    core = Transactions(TERMS)
    core.begin(0, OpProgress(0, 0), 3)
    core.took_ops(1, [1])
    for at in range(3):
        core.took_half(half(at))
    assert not core.ready
    core.caught_up()
    assert core.ready
    assert core.find(0) is not None
    assert core.find(1) is None
    assert core.at(2) is core.find(2)


def test_halves_from_before_are_doubted_and_later_ones_are_not() -> None:
    core = Transactions(TERMS)
    core.begin(0, OpProgress(0, 0), 1)
    core.took_half(half(0))
    core.took_half(half(1))
    core.caught_up()
    assert [core.at(at).doubted for at in (0, 1)] == [True, False]  # type: ignore[union-attr]


def test_a_copy_stands_for_what_it_is_a_copy_of() -> None:
    core = ready(half(0), half(1), half(2, origin=0), half(3, origin=0))
    found = core.find(0)
    assert found is not None
    assert found.queue_offset == 3
    assert core.at(0) is core.at(2) is None
    assert core.progress().halves == 1


def test_an_op_may_name_the_first_one_in_place_of_its_copy() -> None:
    core = Transactions(TERMS)
    core.begin(0, OpProgress(0, 0), 2)
    core.took_ops(1, [0])
    core.took_half(half(0))
    core.took_half(half(1, origin=0))
    core.caught_up()
    assert core.find(0) is None
    assert core.progress() == OpProgress(2, 1)


def test_a_copy_that_comes_late_of_one_that_ended_unnamed_is_over_as_well() -> None:
    """An acting master gets the end of the old master's log when that one returns."""
    core = ready(half(0), half(1), half(2), terms=replace(TERMS, open_max=2))
    for at in (0, 1, 2):
        end(core, at)
    core.ended_unnamed([0, 1, 2, 7])
    core.took_half(half(3, origin=1))
    core.took_half(half(4, origin=2))
    assert core.find(1) is None
    assert core.find(2) is None
    core.took_half(half(5, origin=0))  # it remembers no more than may be open
    assert core.find(0) is not None


def test_a_copy_of_one_that_just_ended_is_over_as_well() -> None:
    core = ready(half(0), half(1))
    end(core, 0)
    core.took_half(half(2, origin=0))
    core.took_half(half(3, origin=1))
    assert core.find(0) is None
    assert core.find(1) is not None


def test_one_that_a_stand_in_ended_is_over_and_so_are_its_copies() -> None:
    core = Transactions(TERMS)
    core.begin(0, OpProgress(0, 0), 4)
    core.took_half(half(0))
    core.took_half(half(1))
    core.took_half(half(2, origin=1), ended=True)
    core.took_half(half(3, origin=1))
    core.caught_up()
    assert core.find(1) is None
    assert core.statistics()["window"] == 1
    assert core.progress().halves == 0


def test_one_that_ended_elsewhere_is_over_unless_something_is_written_of_it() -> None:
    core = ready(half(0), half(1))
    first, second = core.find(0), core.find(1)
    assert first is not None
    assert second is not None
    core.busy(second)
    core.ended_elsewhere(first)
    core.ended_elsewhere(second)
    assert core.find(0) is None
    assert core.find(1) is second
    core.took_half(half(2, origin=0))
    assert core.find(0) is None
    core.done(second, 0, committed=True)
    assert core.statistics()["window"] == 1


def test_the_oldest_is_the_first_that_is_not_over() -> None:
    core = ready(half(0), half(1), half(2), half(3))
    each = [core.find(at) for at in range(4)]
    assert all(each)
    core.took_ops(1, [1])
    assert [core.is_oldest(one) for one in each if one] == [True, False, False, False]
    end(core, 0)
    assert [core.is_oldest(one) for one in each if one] == [False, False, True, False]
    end(core, 2)
    end(core, 3)
    assert not any(core.is_oldest(one) for one in each if one)


def test_what_is_under_way_is_counted() -> None:
    core = ready(half(0), half(1), half(2))
    first, second, third = (core.find(at) for at in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    core.busy(first)
    core.busy(second)
    assert core.busy_count == 2
    core.again(first)
    core.again(first)
    core.done(second, 0, committed=True)
    core.done(third, 0, committed=False)
    assert core.busy_count == 0


def test_what_is_over_may_be_named_again() -> None:
    core = ready(half(0), half(1))
    core.took_ops(1, [0])
    core.took_ops(2, [0])
    assert core.find(1) is not None
    assert core.statistics()["window"] == 1


def test_before_all_is_read_the_progress_stays() -> None:
    core = Transactions(TERMS)
    core.begin(0, OpProgress(3, 2), 9)
    core.took_ops(7, [4])
    core.took_half(half(3))
    assert core.progress() == OpProgress(3, 2)


def test_halves_are_read_once() -> None:
    core = ready(half(0), half(1))
    with pytest.raises(OurBug):
        core.took_half(half(1))


def test_holes_and_what_is_deleted_are_passed_over() -> None:
    core = ready(half(0))
    core.passed(5)
    core.passed(3)
    assert core.seen == 5
    found = core.find(0)
    assert found is not None
    core.gone(found)
    assert core.progress().halves == 5


def test_there_is_room_for_so_many() -> None:
    core = ready(*map(half, range(3)), terms=Terms(open_max=4))
    assert core.crowded
    assert not core.full
    core.took_half(half(3))
    assert core.full


# Ending ------------------------------------------------------------------------------------------


def test_it_ends_once() -> None:
    core = ready(half(0))
    found = end(core, 0)
    assert found.state is HalfMessageState.DONE
    assert found.committed
    with pytest.raises(OurBug):
        core.done(found, 0, committed=True)
    with pytest.raises(OurBug):
        core.busy(found)
    core.again(found)
    assert found.state is HalfMessageState.DONE


def test_what_was_not_written_can_be_tried_again() -> None:
    core = ready(half(0))
    found = core.find(0)
    assert found is not None
    core.busy(found)
    core.again(found)
    assert found.state is HalfMessageState.OPEN


def test_op_messages_gather_and_are_repeated_until_held() -> None:
    core = ready(*map(half, range(3)))
    assert core.op_due(0) == []
    core.hurry(0)
    end(core, 0, 10)
    end(core, 1, 500)
    assert core.op_due(3_009) == []
    assert core.op_due(3_010) == [0, 1]
    assert core.op_due(3_010) == []
    end(core, 2, 3_011)
    core.op_failed(3_020)
    assert core.op_due(3_020) == []
    assert core.op_due(4_020) == [0, 1, 2]
    core.op_held(4_021)
    assert [core.at(at).named for at in range(3)] == [True] * 3  # type: ignore[union-attr]
    assert core.op_due(9_000) == []
    assert core.progress().halves == 0
    core.took_ops(1, [0, 1, 2])
    assert core.progress() == OpProgress(3, 1)
    assert core.statistics()["window"] == 0


def test_an_op_message_is_full_or_wanted_at_once() -> None:
    core = ready(*map(half, range(5)), terms=Terms(op_bytes=4))
    end(core, 0)
    core.hurry(7)
    assert core.op_due(7) == [0]
    end(core, 1, 8)
    end(core, 2, 8)
    end(core, 3, 8)
    core.op_held(9)
    assert core.op_due(9) == [1, 2]
    found = core.at(1)
    assert found is not None
    core.gone(found)
    core.op_held(9)
    assert core.op_due(9) == [3]


# How far -----------------------------------------------------------------------------------------


def test_progress_waits_for_the_first_open_one() -> None:
    core = ready(*map(half, range(4)))
    assert core.progress() == OpProgress(0, 0)
    core.took_ops(1, [1])
    core.took_ops(2, [3])
    assert core.progress() == OpProgress(0, 0)
    core.took_half(half(4))
    core.took_ops(3, [0])
    assert core.progress() == OpProgress(2, 0)
    core.took_ops(4, [2])
    assert core.progress() == OpProgress(4, 0)  # op messages 0 to 3 may not be forgotten before 4
    core.took_half(half(5))
    core.took_ops(5, [4, 5])
    assert core.progress() == OpProgress(6, 5)


def test_old_op_messages_are_left_behind_though_it_never_ends() -> None:
    core = ready(half(0))
    for at in range(1, 50):
        core.progress()
        core.took_half(half(at))
        core.took_ops(at, [at - 1])
    kept = core.progress()
    assert kept.halves == 49
    assert kept.ops >= 47


# Asking ------------------------------------------------------------------------------------------


def asked(core: Transactions, now: int, wall: int) -> list[tuple[int, Why]]:
    return [(look.half.queue_offset, look.why) for look in core.looks(now, wall)]


def test_rounds_look_at_what_is_silent_for_long_enough() -> None:
    core = ready(
        half(0),
        half(1, immunity_ms=60_000),
        half(2, immunity_ms=0, born_wall_ms=WALL + 30_000),
        half(3, born_wall_ms=WALL + 24_001),
        half(4, checks=3),
        half(5, born_wall_ms=WALL - 3_600_000),
    )
    end(core, 0)
    core.took_half(half(6))
    assert asked(core, 29_999, WALL + 29_999) == []
    assert core.next_deadline() == 3_000
    wall = WALL + 30_000
    assert asked(core, 30_000, wall) == [
        (2, Why.ASK), (4, Why.GIVE_UP), (5, Why.GIVE_UP), (6, Why.ASK),
    ]  # fmt: skip
    assert asked(core, 30_001, wall) == []
    assert core.statistics()["rounds"] == 1


def test_a_clock_that_was_set_back_asks_at_once() -> None:
    core = ready(half(0))
    assert asked(core, 30_000, WALL - 1) == [(0, Why.ASK)]


def test_nobody_is_asked_before_it_is_known_what_is_open() -> None:
    core = Transactions(TERMS)
    core.begin(0, OpProgress(0, 0), 1)
    core.took_half(half(0))
    assert asked(core, 40_000, WALL + 40_000) == []
    assert core.next_deadline() is None


def test_a_round_goes_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKS_MAX", 2)
    core = ready(*map(half, range(5)))
    first = core.looks(30_000, WALL + 30_000)
    assert [look.half.queue_offset for look in first] == [0, 1]
    assert core.next_deadline() == 0
    core.took_ops(1, [3])
    assert asked(core, 30_001, WALL + 30_001) == [(2, Why.ASK), (4, Why.ASK)]
    assert core.next_deadline() == 60_000


def test_one_far_behind_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPAN_MAX", 3)
    monkeypatch.setattr(module, "LOOKS_MAX", 2)
    core = ready(*map(half, range(8)))
    core.took_ops(1, [1])
    assert asked(core, 0, WALL) == [(0, Why.RENEW), (2, Why.RENEW)]
    for at in (0, 2, 3):
        found = core.at(at)
        assert found is not None
        core.busy(found)
    assert asked(core, 0, WALL) == []


def test_one_far_behind_is_named_once_when_a_round_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPAN_MAX", 3)
    core = ready(*map(half, range(6)))
    found = core.looks(30_000, WALL + 30_000)
    whys = [(look.half.queue_offset, look.why) for look in found]
    assert whys == [(at, Why.RENEW if at < 3 else Why.ASK) for at in range(6)]


# Against a model ---------------------------------------------------------------------------------


@dataclass
class Log:
    """Everything ever written, in order: ("half", origin), ("op", places), ("real", origin)."""

    entries: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)

    def halves(self) -> list[int]:
        """Origin by place in the half queue."""
        return [origin for kind, origin, _ in self.entries if kind == "half"]

    def ops(self) -> list[tuple[int, ...]]:
        return [places for kind, _, places in self.entries if kind == "op"]

    def reals(self, origin: int) -> int:
        return sum(kind == "real" and of == origin for kind, of, _ in self.entries)

    def open(self) -> set[int]:
        """Origins that neither an op message nor a real message ends, by reading all of it."""
        named = {at for places in self.ops() for at in places}
        halves = self.halves()
        over = {origin for at, origin in enumerate(halves) if at in named}
        return {o for o in halves if o not in over and not self.reals(o)}


class Model(RuleBasedStateMachine):
    """Producers, a broker that may die between any two writes, and one that follows it.

    What was promised to a producer ("committed", "rolled back") must hold for ever (INV-26).
    """

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.now = 0
        self.wall = WALL
        self.saved = OpProgress(0, 0)
        self.born: dict[int, int] = {}
        self.promised: dict[int, bool] = {}
        self.given_up: set[int] = set()
        self.core = Transactions(TERMS)

    @initialize()
    def start(self) -> None:
        self.take_over()

    def take_over(self) -> None:
        """As the hands do: op messages first, then half messages."""
        self.core = Transactions(TERMS)
        self.core.begin(self.now, self.saved, len(self.log.halves()))
        self.core.took_ops(
            len(self.log.ops()), [at for ops in self.log.ops()[self.saved.ops :] for at in ops]
        )
        self.read_halves()
        self.core.caught_up()

    def read_halves(self) -> None:
        halves = self.log.halves()
        for at in range(self.core.seen, len(halves)):
            self.core.took_half(half(at, halves[at], born_wall_ms=self.born[halves[at]]))

    def read(self) -> None:
        for at, ops in list(enumerate(self.log.ops()))[self.core.op_at :]:
            self.core.took_ops(at + 1, ops)
        self.read_halves()

    def evidence(self, found: Half) -> bool:
        """What the hands do before they write because of a doubted one; whether it is over."""
        if found.doubted and self.log.reals(found.origin):
            self.core.done(found, self.now, committed=True)
            return True
        found.doubted = False
        return False

    @rule(back=st.booleans())
    def half_message(self, back: bool) -> None:
        at = len(self.log.halves())
        self.born[at] = self.wall + (5_000 if back else 0)
        self.log.entries.append(("half", at, ()))
        self.read()

    @precondition(lambda self: self.born)
    @rule(data=st.data(), commit=st.booleans(), fate=st.sampled_from(("ok", "refused", "crash")))
    def end(self, data: st.DataObject, commit: bool, fate: str) -> None:
        origin = data.draw(st.sampled_from(sorted(self.born)))
        found = self.core.find(origin)
        if found is None or found.state is not HalfMessageState.OPEN or self.evidence(found):
            return
        if not commit:
            self.core.done(found, self.now, committed=False)
            return
        self.core.busy(found)
        if fate != "refused":
            self.log.entries.append(("real", origin, ()))
        if fate == "crash":
            self.take_over()
        elif fate == "refused":
            self.core.again(found)
        else:
            self.core.done(found, self.now, committed=True)
            self.promise(origin, True)

    def promise(self, origin: int, committed: bool) -> None:
        assert self.promised.setdefault(origin, committed) is committed

    @rule(fate=st.sampled_from(("ok", "refused", "crash before", "crash after")))
    def op_message(self, fate: str) -> None:
        self.core.hurry(self.now)
        due = self.core.op_due(self.now)
        if not due:
            return
        states = {at: self.core.at(at) for at in due}
        if fate in ("ok", "crash after"):
            self.log.entries.append(("op", 0, tuple(due)))
        if fate.startswith("crash"):
            self.take_over()
        elif fate == "refused":
            self.core.op_failed(self.now)
        else:
            self.core.op_held(self.now)
            for found in states.values():
                assert found is not None
                if not found.committed and found.origin not in self.given_up:
                    self.promise(found.origin, False)
            self.read()

    @rule(fate=st.sampled_from(("ok", "refused", "crash before", "crash after")))
    def round(self, fate: str) -> None:
        self.now += 30_000
        self.wall += 30_000
        for found, why in self.looks():
            if self.evidence(found):
                continue
            self.core.busy(found)
            wrote = fate in ("ok", "crash after")
            if why is Why.GIVE_UP:
                if fate == "ok":
                    self.given_up.add(found.origin)
                    self.core.done(found, self.now, committed=False)
            elif wrote:
                self.log.entries.append(("half", found.origin, ()))
            if fate.startswith("crash"):
                self.take_over()
                return
            if fate == "refused":
                self.core.again(found)
        self.read()

    def looks(self) -> Iterator[ReadHalfMessages]:
        yield from self.core.looks(self.now, self.wall)

    @rule(ms=st.integers(-100_000, 100_000))
    def clock_steps(self, ms: int) -> None:
        self.wall += ms

    @rule()
    def save(self) -> None:
        self.saved = self.core.progress()

    @rule()
    def crash(self) -> None:
        self.take_over()

    @invariant()
    def each_is_delivered_once_at_most(self) -> None:
        for origin in self.born:
            assert self.log.reals(origin) <= 1

    @invariant()
    def promises_hold(self) -> None:
        for origin, committed in self.promised.items():
            assert self.log.reals(origin) == committed

    @invariant()
    def nothing_open_is_lost(self) -> None:
        for origin in self.log.open():
            assert self.core.find(origin) is not None

    @invariant()
    def what_is_over_for_good_stays_over(self) -> None:
        named = {at for places in self.log.ops() for at in places}
        for at, origin in enumerate(self.log.halves()):
            if at in named:
                found = self.core.find(origin)
                assert found is None or found.state is HalfMessageState.DONE


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(60), stateful_step_count=40)
