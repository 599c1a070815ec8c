"""Young check points: cancelled by acknowledgements or written in time, never forgotten."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epochmq.broker.pop.pop_buffer import RETRY_MS, BufferSlot, PopBuffer
from epochmq.broker.pop.pop_records import CheckPoint


def slot(start: int = 0, count: int = 2, invisible_ms: int = 60_000) -> BufferSlot:
    point = CheckPoint(
        topic="T", group="G", start=start, pop_time=1, invisible_time=invisible_ms,
        deltas=list(range(count)), count=count, broker_name="b",
    )  # fmt: skip
    return BufferSlot(point, 3, None, invisible_ms)


def buffer(slots: int = 100) -> PopBuffer:
    return PopBuffer(stay_ms=10_000, spare_ms=3_000, slots_max=slots)


def test_all_acknowledged_is_never_written() -> None:
    core, one = buffer(), slot()
    key = one.check_point.key
    assert core.add(one, 0)
    assert core.next_deadline() == 10_000
    assert key in core
    assert core.check_point(key) is one.check_point
    assert core.ack(key, 0) is one
    assert not one.done
    assert core.ack(key, 9) is None
    assert core.ack(key, 1) is one
    assert one.done
    assert core.ack(key, 1) is None
    assert key not in core
    assert core.check_point(key) is None
    assert core.next_deadline() is None
    assert core.due(99_999, 9) == []
    assert core.statistics() == {"buffered": 0, "cancelled": 1, "written": 0}


def test_written_after_its_stay_with_what_is_acknowledged() -> None:
    core, one = buffer(), slot()
    core.add(one, 0)
    core.ack(one.check_point.key, 1)
    assert core.due(9_999, 9) == []
    assert core.due(10_000, 9) == [one]
    assert one.as_written().done == 2
    assert core.ack(one.check_point.key, 0) is None  # it must be written behind the check point
    assert core.due(20_000, 9) == []
    core.failed(one, 20_000)
    assert core.next_deadline() == 20_000 + RETRY_MS
    assert core.due(21_000, 9) == [one]
    core.written(one)
    assert len(core) == 0


def test_what_is_of_a_deleted_topic_is_forgotten_or_written_as_done() -> None:
    core, young, writing, other = buffer(), slot(0), slot(5), slot(9)
    other.check_point.topic = "U"
    core.add(writing, 0)
    assert core.due(10_000, 9) == [writing]
    core.add(young, 10_000)
    core.add(other, 10_000)
    core.drop_topic("T")
    assert young.check_point.key not in core
    core.failed(writing, 10_000)
    assert core.due(10_000 + RETRY_MS, 9) == [writing]
    assert writing.as_written().done == writing.full
    core.written(writing)
    assert core.due(20_000, 9) == [other]


def test_what_was_acknowledged_meanwhile_is_not_due() -> None:
    core, over, other = buffer(), slot(0, count=1), slot(5)
    core.add(over, 0)
    core.add(other, 1)
    core.ack(over.check_point.key, 0)
    assert core.due(10_001, 9) == [other]


def test_written_before_it_is_due() -> None:
    core = buffer()
    assert core.add(slot(0, invisible_ms=5_000), 0)
    assert core.next_deadline() == 2_000
    assert not core.add(slot(1, invisible_ms=3_000), 0)


def test_is_bounded_and_takes_a_key_once() -> None:
    core = buffer(slots=1)
    assert core.add(slot(), 0)
    assert not core.add(slot(1), 0)
    assert not buffer(slots=0).add(slot(), 0)
    core = buffer()
    assert core.add(slot(), 0)
    assert not core.add(slot(), 0)


def test_a_stop_and_another_role() -> None:
    core = buffer()
    first, second = slot(0), slot(5)
    core.add(first, 0)
    core.add(second, 1)
    assert core.due(10_000, 1) == [first]
    assert core.pop_all() == [second]
    core.clear()
    core.written(first)
    core.failed(second, 0)
    assert (len(core), core.next_deadline()) == (0, None)


def test_what_may_be_in_the_log_is_acknowledged_there() -> None:
    core, one = buffer(), slot(0)
    core.add(one, 0)
    assert core.due(10_000, 1) == [one]
    assert core.ack(one.check_point.key, 0) is None
    core.failed(one, 10_000)
    assert all(core.ack(one.check_point.key, at) is None for at in one.offsets)
    assert (one.done, len(core)) == (True, 1)
    assert core.due(10_000 + RETRY_MS, 1) == [one]
    assert one.as_written().done == one.full
    core.written(one)
    assert len(core) == 0


def test_the_plan_does_not_grow_with_what_is_over() -> None:
    core = buffer()
    for start in range(0, 1_000, 2):
        core.add(slot(start, count=1), start)
        core.ack(slot(start, count=1).check_point.key, start)
    assert len(core._plan) < 100


class Slowly(RuleBasedStateMachine):
    """Each check point is open, cancelled or written exactly once."""

    def __init__(self) -> None:
        super().__init__()
        self.core = buffer(slots=5)
        self.now = 0
        self.open: dict[int, tuple[BufferSlot, set[int], int]] = {}
        self.unsure: set[int] = set()
        """Written once in vain: acknowledgements go into the log, and it is written again."""
        self.fate: Counter[int] = Counter()
        self.next = 0

    @rule(count=st.integers(1, 3), invisible=st.sampled_from([2_000, 4_000, 60_000]))
    def add(self, count: int, invisible: int) -> None:
        one = slot(self.next, count, invisible)
        added = self.core.add(one, self.now)
        assert added == (len(self.open) < 5 and invisible > 3_000)
        if added:
            due = self.now + min(10_000, invisible - 3_000)
            self.open[self.next] = (one, set(range(self.next, self.next + count)), due)
        self.next += 10

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        start = data.draw(st.sampled_from(sorted(self.open)))
        one, left, _ = self.open[start]
        offset = data.draw(st.sampled_from(one.offsets))
        unsure = start in self.unsure
        assert self.core.ack(one.check_point.key, offset) is (None if unsure else one)
        left.discard(offset)
        if not left and not unsure:
            del self.open[start]
            self.fate[start] += 1

    @rule(ms=st.integers(0, 6_000), fails=st.booleans(), most=st.integers(1, 3))
    def pass_time(self, ms: int, fails: bool, most: int) -> None:
        self.now += ms
        ready = [start for start, (_, _, due) in self.open.items() if due <= self.now]
        found = self.core.due(self.now, most)
        assert len(found) == min(most, len(ready))
        for one in found:
            start = one.check_point.start
            assert start in ready
            left = self.open[start][1]
            assert one.as_written().done == sum(
                1 << bit for bit, at in enumerate(one.offsets) if at not in left
            )
            if fails:
                self.core.failed(one, self.now)
                self.unsure.add(start)
                self.open[start] = (one, left, self.now + RETRY_MS)
            else:
                self.core.written(one)
                del self.open[start]
                self.fate[start] += 1

    @invariant()
    def same(self) -> None:
        assert len(self.core) == len(self.open)
        assert all(count == 1 for count in self.fate.values())
        expected = min((due for _, _, due in self.open.values()), default=None)
        assert self.core.next_deadline() == expected


TestSlowly = Slowly.TestCase
