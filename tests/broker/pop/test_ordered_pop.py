"""One batch of a queue at a time, counted, hidden, and kept in RocketMQ's file."""

from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epochmq.base import limits
from epochmq.broker.pop.ordered_pop import RECENT_MS, AckRefusal, Orders
from epochmq.broker.pop.pop_windows import QueueKey

KEY, OTHER = QueueKey("G", "T", 0), QueueKey("G", "T", 1)
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


def test_an_attempt_reads_all_that_it_has_and_has_it_for_the_longer_time() -> None:
    """An earlier request may be executed after its repetition (popping 5141)."""
    core = Orders()
    assert core.out_of(KEY, "a") == 0
    core.out(KEY, "a", (WALL, 2_000), [5, 6, 7], 0)
    core.ack(KEY, 5, WALL)
    assert [core.out_of(KEY, attempt) for attempt in ("a", "b", None, "")] == [2, 0, 0, 0]
    core.out(KEY, "a", (WALL + 500, 100), [6, 7, 8], 500)
    core.ack(KEY, 8, WALL + 500)
    replica = Orders()
    replica.adopt(told(core, WALL + 500), 0, WALL, whole=True)
    assert [core.blocked(KEY, None, at) for at in (1_999, 2_000)] == [True, False]
    assert [replica.blocked(KEY, None, at) for at in (1_499, 1_500)] == [True, False]


def test_what_is_acknowledged_stays_so_though_less_of_the_batch_is_out_again() -> None:
    """Found by the simulator: of four the third was late, was out alone, and then the fourth."""
    core = Orders()
    out(core, 1, 2, 3, 4)
    for offset in (1, 2, 4):
        core.ack(KEY, offset, WALL)
    out(core, 3, now=1_000)
    assert core.done_with(KEY) == {4}
    other = Orders()
    other.adopt(told(core, WALL + 1_000), 0, WALL + 1_000, whole=True)
    assert other.ack(KEY, 3, WALL + 1_000) == core.ack(KEY, 3, WALL + 1_000) == 5
    assert core.done_with(KEY) == {3, 4}


def test_how_often_a_message_was_out() -> None:
    core = Orders()
    out(core, 5, 6)
    assert out(core, 5, 6, now=1) == ({5: 1, 6: 1}, 1)
    assert out(core, 6, 7, now=2, attempt="a") == ({6: 2}, 0)
    assert out(core, 6, 7, now=3, attempt="a") == ({6: 2}, 0)
    assert out(core, 6, 7, now=4) == ({6: 3, 7: 1}, 1)


def test_what_is_not_out_cannot_be_acknowledged() -> None:
    core = Orders()
    assert core.ack(KEY, 5, WALL) is AckRefusal.STALE
    out(core, 5, 6)
    assert core.ack(KEY, 5, WALL - 1) is AckRefusal.STALE
    assert core.ack(KEY, 7, WALL) is AckRefusal.ILLEGAL


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


def test_a_reset_and_a_deletion_forget() -> None:
    core = Orders()
    core.forget(KEY)
    assert not core.dirty
    out(core, 5)
    core.dirty = False
    core.forget(KEY)
    assert core.dirty
    assert not core.blocked(KEY, None, 0)
    out(core, 5)
    core.out(OTHER, None, (WALL, 1_000), [7], 0)
    core.drop(lambda key: key.queue_id == 0)
    assert (len(core), core.statistics()) == (1, {"ordered": 1})
    assert core.blocked(OTHER, None, 0)


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
    core.step_version(WALL)
    content = msgspec.json.decode(core.encode())
    assert content == {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": WALL},
        "table": {
            "T@G": {
                "0": {
                    "popTime": WALL, "i": 1_000, "o": [5, 2, 4], "ot": {"9": WALL + 4_010},
                    "l": WALL, "cm": 2, "a": "a", "epochmqHidden": {"9": 4_000},
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


def test_a_version_steps_with_a_change() -> None:
    core = Orders()
    core.step_version(WALL)
    assert core.version.counter == 0


# Another broker's ----------------------------------------------------------------------------


def told(core: Orders, wall: int, keys: list[QueueKey] | None = None) -> dict[str, Any]:
    """The table as it travels."""
    return msgspec.json.decode(msgspec.json.encode(core.content(keys, wall)))


def test_a_replica_blocks_what_the_master_handed_out_whatever_its_clock_says() -> None:
    master, replica = Orders(), Orders()
    out(master, 5, 6)
    master.ack(KEY, 6, WALL)
    replica.adopt(told(master, WALL + 400), 70_000, WALL + 3_600_000, whole=True)
    assert replica.blocked(KEY, None, 70_599)
    assert not replica.blocked(KEY, None, 70_600)
    assert replica.done_with(KEY) == {6}
    assert replica.version == master.version
    assert replica.freed(70_600) == [KEY]


def test_only_what_changed_travels() -> None:
    master, replica = Orders(), Orders()
    assert master.changes.since(0).rows == []
    out(master, 5)
    master.out(OTHER, None, (WALL, 1_000), [7], 0)
    count = master.changes.count
    replica.adopt(told(master, WALL), 0, WALL, whole=True)
    assert master.changes.since(count).rows == []
    master.ack(KEY, 5, WALL)
    changed = master.changes.since(count)
    assert (changed.rows, changed.is_delta) == ([KEY], True)
    replica.adopt(told(master, WALL, changed.rows), 0, WALL, whole=False)
    assert not replica.blocked(KEY, None, 0)
    assert replica.blocked(OTHER, None, 0)
    assert not master.changes.since(master.changes.count + 1).is_delta
    count = master.changes.count
    master.forget(OTHER)
    assert not master.changes.since(count).is_delta
    replica.adopt(told(master, WALL), 0, WALL, whole=True)
    assert not replica.blocked(OTHER, None, 0)
    assert not replica.changes.since(0).is_delta


def test_an_older_release_says_no_time() -> None:
    master, replica = Orders(), Orders()
    out(master, 5)
    replica.adopt({"table": told(master, WALL)["table"]}, 0, WALL + 300, whole=True)
    assert replica.blocked(KEY, None, 699)
    assert not replica.blocked(KEY, None, 700)


def test_what_is_adopted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    master, replica = Orders(), Orders()
    out(master, 5)
    monkeypatch.setattr(limits, "POP_ORDER_QUEUES_MAX", 0)
    with pytest.raises(ValueError, match="too many"):
        replica.adopt(told(master, WALL), 0, WALL, whole=True)
    assert (replica.merge(told(master, WALL), 0, WALL), len(replica)) == (0, 0)


def test_of_two_brokers_batches_the_later_one_counts() -> None:
    ours, theirs = Orders(), Orders()
    out(ours, 5, 6)
    theirs.out(KEY, None, (WALL + 1, 1_000), [5, 6], 0)  # again, to another
    theirs.out(OTHER, None, (WALL, 1_000), [7], 0)
    assert ours.merge(told(theirs, WALL), 0, WALL) == 2
    assert ours.ack(KEY, 5, WALL) is AckRefusal.STALE
    assert ours.ack(KEY, 5, WALL + 1) == 6
    assert ours.ack(OTHER, 7, WALL) == 8
    assert ours.version.counter == 1
    assert theirs.merge(told(ours, WALL), 0, WALL) == 2
    assert theirs.version > ours.version
    out(theirs, 4)  # an older one
    assert theirs.merge(told(ours, WALL), 0, WALL) == 2
    out(ours, 9)
    ours.out(OTHER, None, (WALL, 1_000), [9], 0)
    assert ours.merge(told(theirs, WALL), 0, WALL) == 0


def test_of_one_batch_both_brokers_words_count() -> None:
    ours, theirs = Orders(), Orders()
    out(ours, 5, 6, 7)
    theirs.adopt(told(ours, WALL), 0, WALL, whole=True)
    ours.ack(KEY, 5, WALL)
    ours.change(KEY, 6, WALL, 9_000, 0, WALL)
    theirs.ack(KEY, 7, WALL)
    assert ours.merge(told(theirs, WALL), 0, WALL) == 1
    assert ours.done_with(KEY) == {5, 7}
    assert ours.blocked(KEY, None, 8_999)
    row = told(ours, WALL)["table"]["T@G"]["0"]
    assert (row["cm"], row["ot"]) == (0b101, {"6": WALL + 9_000})


@pytest.mark.parametrize(
    ("offset", "reset_at", "now", "ahead", "blocked"),
    [
        (5, 0, 0, [], True),
        (6, 0, 0, [], True),
        (8, 0, 0, [], False),  # the offset came later than the batch
        (9, 0, 0, [], False),
        (2, 0, 0, [(KEY, 5)], True),  # the batch came later than the offset
        (2, 0, 1_000 + RECENT_MS, [], False),
        (2, WALL + 1, 0, [], False),
        (2, WALL, 0, [(KEY, 5)], True),
        (-1, 0, 0, [(KEY, 5)], True),  # it did not come at all (popping 3034)
    ],
)
def test_batches_and_offsets_that_were_copied_apart(
    offset: int, reset_at: int, now: int, ahead: list[Any], blocked: bool
) -> None:
    core = Orders()
    out(core, 5, 6, 7)
    assert core.apply_committed(lambda _key: (offset, reset_at), now) == ahead
    assert core.blocked(KEY, None, now) is blocked
    gone = reset_at > WALL
    assert core.done_with(KEY) == {at for at in (5, 6, 7) if at < offset and not gone}


class Slowly(RuleBasedStateMachine):
    """A queue of ten messages consumed in order, against a list of what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Orders()
        self.now = 0
        self.committed = 0
        self.batch: dict[int, int] = {}  # offset -> until, without what is acknowledged
        self.pop_time = 0
        self.acked: set[int] = set()

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        free = all(until <= self.now for until in self.batch.values())
        assert self.core.blocked(KEY, None, self.now) is not free
        if not free:
            return
        gone = self.core.done_with(KEY)
        offsets = [at for at in range(self.committed, 10) if at not in gone][:count]
        assert not self.acked.intersection(offsets)
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
        self.acked.add(offset)
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

    @rule(skew=st.integers(-100_000, 100_000))
    def fail_over(self, skew: int) -> None:
        """Another broker, with another clock, goes on."""
        content = told(self.core, WALL + self.now)
        self.core = Orders()
        self.core.adopt(content, self.now, WALL + self.now + skew, whole=True)
        assert self.core.apply_committed(lambda _key: (self.committed, 0), self.now) == []

    @invariant()
    def nothing_is_skipped(self) -> None:
        assert all(at >= self.committed for at in self.batch)


TestSlowly = Slowly.TestCase
