"""One batch of a queue at a time, counted, hidden, and kept in RocketMQ's file."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epochmq.base import limits
from epochmq.broker.pop.order.core import Orders, Verdict
from epochmq.broker.pop.windows.core import QueueKey

KEY = QueueKey("G", "T", 0)
WALL = 1_700_000_000_000


def out(
    core: Orders, *offsets: int, now: int = 0, attempt: str | None = None, ms: int = 1_000
) -> tuple[dict[int, int], int] | None:
    return core.out(KEY, attempt, (WALL + now, ms), offsets, now)


def test_a_batch_blocks_until_it_is_acknowledged() -> None:
    core = Orders()
    assert not core.blocked(KEY, None, 0)
    assert out(core, 5, 6) == ({}, 0)
    assert core.blocked(KEY, None, 999)
    assert core.ack(KEY, 6, WALL) == 5
    assert core.done_with(KEY) == {6}
    assert core.blocked(KEY, None, 999)
    assert core.ack(KEY, 5, WALL) == 7
    assert not core.blocked(KEY, None, 0)


def test_or_until_its_time_is_over() -> None:
    core = Orders()
    out(core, 5, 6)
    assert core.next_deadline() == 1_000
    assert core.blocked(KEY, None, 999)
    assert not core.blocked(KEY, None, 1_000)
    assert core.freed(999) == []
    assert core.freed(1_000) == [KEY]
    assert core.next_deadline() is None


def test_the_same_attempt_may_read_its_batch_again() -> None:
    core = Orders()
    out(core, 5, 6, attempt="a")
    assert not core.blocked(KEY, "a", 0)
    assert core.blocked(KEY, "b", 0)
    assert out(core, 5, 6, attempt="a") == ({}, 0)


def test_how_often_a_message_was_out() -> None:
    core = Orders()
    out(core, 5, 6)
    assert out(core, 5, 6, now=1) == ({5: 1, 6: 1}, 1)
    assert out(core, 6, 7, now=2, attempt="a") == ({6: 2}, 0)
    assert out(core, 6, 7, now=3, attempt="a") == ({6: 2}, 0)
    assert out(core, 6, 7, now=4) == ({6: 3, 7: 1}, 1)


def test_what_is_not_out_cannot_be_acknowledged() -> None:
    core = Orders()
    assert core.ack(KEY, 5, WALL) is Verdict.STALE
    out(core, 5, 6)
    assert core.ack(KEY, 5, WALL - 1) is Verdict.STALE
    assert core.ack(KEY, 7, WALL) is Verdict.ILLEGAL


def test_a_message_is_hidden_longer_or_shorter() -> None:
    core = Orders()
    out(core, 5)
    assert core.change(KEY, 5, WALL, 5_000, 100, WALL + 100)
    assert core.blocked(KEY, None, 5_099)
    assert core.change(KEY, 5, WALL, 10, 200, WALL + 200)
    assert not core.blocked(KEY, None, 210)
    assert not core.change(KEY, 6, WALL, 10, 200, WALL)
    assert not core.change(KEY, 5, WALL + 1, 10, 200, WALL)
    assert not core.change(QueueKey("G", "T", 1), 5, WALL, 10, 200, WALL)


def test_a_reset_and_another_role_forget() -> None:
    core = Orders()
    core.forget(KEY)
    core.clear()
    assert not core.dirty
    out(core, 5)
    core.dirty = False
    core.forget(KEY)
    assert core.dirty
    assert not core.blocked(KEY, None, 0)
    out(core, 5)
    core.clear()
    assert (len(core), core.statistics()) == (0, {"ordered": 0})


def test_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POP_ORDER_QUEUES_MAX", 1)
    core = Orders()
    assert out(core, 5) is not None
    assert core.out(QueueKey("G", "T", 1), None, (WALL, 1), [5], 0) is None
    assert out(core, 5) is not None


def test_the_plan_does_not_grow_without_end() -> None:
    core = Orders()
    for now in range(500):
        out(core, 5, now=now)
    assert len(core._frees) < 100


def test_the_file_is_upstreams() -> None:
    core = Orders()
    out(core, 5, 7, 9, attempt="a")
    core.ack(KEY, 7, WALL)
    core.change(KEY, 9, WALL, 4_000, 10, WALL + 10)
    content = msgspec.json.decode(core.encode())
    assert content == {
        "table": {
            "T@G": {
                "0": {
                    "popTime": WALL, "i": 1_000, "o": [5, 2, 4], "ot": {"9": WALL + 4_010},
                    "l": WALL, "cm": 2, "a": "a",
                }
            }
        }
    }  # fmt: skip
    other = Orders()
    other.load(content)
    other.begin(50_000, WALL + 500)
    assert other.done_with(KEY) == {7}
    assert other.blocked(KEY, None, 53_509)
    assert not other.blocked(KEY, None, 53_510)
    assert msgspec.json.decode(other.encode()) == content
    assert other.out(KEY, None, (WALL, 1), [9], 0) == ({9: 1}, 1)


def test_an_empty_file_and_an_empty_batch() -> None:
    core = Orders()
    core.load({})
    core.begin(0, WALL)
    core.load({"table": {"T@G": {"0": {"popTime": 1}}}})
    core.begin(0, WALL)
    assert len(core) == 0


class Slowly(RuleBasedStateMachine):
    """A queue of ten messages consumed in order, against a list of what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Orders()
        self.now = 0
        self.committed = 0
        self.batch: dict[int, int] = {}  # offset -> until, without what is acknowledged
        self.pop_time = 0

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        free = all(until <= self.now for until in self.batch.values())
        assert self.core.blocked(KEY, None, self.now) is not free
        if not free:
            return
        gone = self.core.done_with(KEY)
        offsets = [at for at in range(self.committed, 10) if at not in gone][:count]
        if offsets:
            self.now += 1  # two pops of a queue have two times
            self.pop_time = WALL + self.now
            self.core.out(KEY, None, (self.pop_time, 1_000), offsets, self.now)
            self.batch = dict.fromkeys(offsets, self.now + 1_000)

    @precondition(lambda self: self.batch)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.batch)))
        found = self.core.ack(KEY, offset, self.pop_time)
        assert isinstance(found, int)
        del self.batch[offset]
        assert found == (min(self.batch) if self.batch else found)
        assert all(at >= found for at in self.batch)
        self.committed = max(self.committed, found)

    @precondition(lambda self: self.batch)
    @rule(data=st.data(), ms=st.integers(1, 2_000))
    def hide(self, data: st.DataObject, ms: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.batch)))
        assert self.core.change(KEY, offset, self.pop_time, ms, self.now, WALL + self.now)
        self.batch[offset] = self.now + ms

    @rule(ms=st.integers(0, 1_500))
    def pass_time(self, ms: int) -> None:
        self.now += ms

    @rule()
    def restart(self) -> None:
        content = msgspec.json.decode(self.core.encode())
        self.core = Orders()
        self.core.load(content)
        self.core.begin(self.now, WALL + self.now)

    @invariant()
    def nothing_is_skipped(self) -> None:
        assert all(at >= self.committed for at in self.batch)


TestSlowly = Slowly.TestCase
