"""Consumer offsets: commits, resets, clones, clean-up, versions, the file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.fake_disk import FakeDisk

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.consumer_offsets import NONE, TRANSACTIONS, ConsumerOffsets
from epochmq.broker.consume.ended_transactions import ENDED_FIELD, EndedMark
from epochmq.broker.state.saved_files import load_table
from epochmq.model.data_version import DataVersion
from epochmq.model.names import HALF_TOPIC

WALL = 1_700_000_000_000


def test_commit_and_get() -> None:
    offsets = ConsumerOffsets()
    assert offsets.get("g", "T", 0) == NONE
    offsets.commit("g", "T", 0, 5)
    assert offsets.get("g", "T", 0) == 5
    assert offsets.get("g", "T", 1) == NONE
    assert offsets.get("h", "T", 0) == NONE
    assert offsets.row("g", "T") == {0: 5}
    assert offsets.row("h", "T") == {}
    assert offsets.dirty


def test_a_client_may_go_back() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 0, 2)
    assert offsets.get("g", "T", 0) == 2


def test_version_steps_once_in_many_commits() -> None:
    offsets = ConsumerOffsets(version_step=3)
    for offset in range(8):
        offsets.commit("g", "T", 0, offset, WALL)
    assert offsets.version == DataVersion(0, 2, WALL)


def test_reset_holds_until_it_is_taken() -> None:
    offsets = ConsumerOffsets()
    assert offsets.pop_reset("g", "T", 0) is None
    offsets.reset("g", "T", 0, 3, WALL)
    offsets.reset("g", "T", 1, 4, WALL)
    offsets.commit("g", "T", 0, 9)
    assert offsets.get("g", "T", 0) == 3
    assert offsets.has_reset("g", "T", 0)
    assert offsets.pop_reset("g", "T", 7) is None
    assert offsets.pop_reset("g", "T", 0) == 3
    assert offsets.pop_reset("g", "T", 0) is None
    assert not offsets.has_reset("g", "T", 0)
    assert offsets.get("g", "T", 0) == 9
    assert offsets.pop_reset("g", "T", 1) == 4
    assert not offsets.has_reset("g", "T", 1)
    assert offsets.version.counter == 2


def test_clone() -> None:
    offsets = ConsumerOffsets()
    assert not offsets.clone("g", "h", "T", WALL)
    offsets.commit("g", "T", 0, 5)
    assert offsets.clone("g", "h", "T", WALL)
    offsets.commit("g", "T", 0, 6)
    assert offsets.get("h", "T", 0) == 5
    assert offsets.clone("g", "h", "T", WALL)
    assert offsets.get("h", "T", 0) == 6


def test_topics_of_a_group_and_groups_of_a_topic() -> None:
    offsets = ConsumerOffsets()
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        offsets.commit(group, topic, 0, 1)
    assert offsets.topics_of("g") == {"T", "U"}
    assert offsets.groups_of("T") == {"g", "h"}
    assert offsets.groups_of("V") == set()


def test_drop() -> None:
    offsets = ConsumerOffsets()
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T"), ("gg", "T")):
        offsets.commit(group, topic, 0, 1)
    offsets.reset("g", "T", 0, 3, WALL)
    assert offsets.drop_group("g", WALL) == 2
    assert not offsets.has_reset("g", "T", 0)
    assert set(offsets.table) == {"T@h", "T@gg"}
    assert offsets.drop_topic("T", WALL) == 2
    assert offsets.drop_topic("T", WALL) == 0
    assert offsets.content()["epochmqDropped"] == {"@g": WALL, "T@": WALL + 1}
    assert offsets.has_dropped


def test_lowest_of_all_groups() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    offsets.commit("h", "T", 0, 3)
    offsets.commit("h", "T", 1, 8)
    offsets.commit("i", "T", 0, 1)
    offsets.commit("g", "U", 0, 0)
    assert offsets.lowest("T", frozenset({"i"})) == {0: 3, 1: 8}


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 1)
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    with pytest.raises(Refused):
        offsets.commit("h", "T", 0, 5)
    with pytest.raises(Refused):
        offsets.reset("h", "T", 0, 5, WALL)
    with pytest.raises(Refused):
        offsets.clone("g", "h", "T", WALL)


def test_file_is_standard_json() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    assert json.loads(offsets.encode()) == {
        "dataVersion": {"stateVersion": 0, "counter": 0, "timestamp": 0},
        "offsetTable": {"T@g": {"0": 5}},
        "epochmqDropped": {},
    }


def test_bare_integer_keys_of_java_are_read() -> None:
    text = b"""{
\t"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},
\t"offsetTable":{"%RETRY%g@g":{0:38,1:37
\t\t},"T@g":{"0":5,11:9}
\t}
}"""
    offsets = ConsumerOffsets()
    assert load_table(FakeDisk({ConsumerOffsets.file: text}), offsets)
    assert offsets.get("g", "%RETRY%g", 1) == 37
    assert offsets.row("g", "T") == {0: 5, 11: 9}
    assert offsets.version.counter == 2


class Model(RuleBasedStateMachine):
    """Against one flat dictionary, with a save and load at any time."""

    groups = st.sampled_from(["g", "h"])
    topics = st.sampled_from(["T", "U"])
    queues = st.integers(0, 2)
    values = st.integers(0, 9)

    def __init__(self) -> None:
        super().__init__()
        self.offsets = ConsumerOffsets()
        self.plain: dict[tuple[str, str, int], int] = {}
        self.resets: dict[tuple[str, str, int], int] = {}
        self.seen = self.offsets.version

    @rule(group=groups, topic=topics, queue=queues, offset=values)
    def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        self.offsets.commit(group, topic, queue, offset, WALL)
        self.plain[group, topic, queue] = offset

    @rule(group=groups, topic=topics, queue=queues, offset=values)
    def reset(self, group: str, topic: str, queue: int, offset: int) -> None:
        self.offsets.reset(group, topic, queue, offset, WALL)
        self.plain[group, topic, queue] = self.resets[group, topic, queue] = offset

    @rule(group=groups, topic=topics, queue=queues)
    def take(self, group: str, topic: str, queue: int) -> None:
        taken = self.offsets.pop_reset(group, topic, queue)
        assert taken == self.resets.pop((group, topic, queue), None)

    @rule(group=groups)
    def drop_group(self, group: str) -> None:
        self.offsets.drop_group(group, WALL)
        for table in (self.plain, self.resets):
            for key in [key for key in table if key[0] == group]:
                del table[key]

    @rule(topic=topics)
    def drop_topic(self, topic: str) -> None:
        self.offsets.drop_topic(topic, WALL)
        for table in (self.plain, self.resets):
            for key in [key for key in table if key[1] == topic]:
                del table[key]

    @rule()
    def restart(self) -> None:
        content = json.loads(self.offsets.encode())
        self.offsets = ConsumerOffsets()
        self.offsets.load(content)
        self.resets.clear()

    @invariant()
    def same(self) -> None:
        expected = {**self.plain, **self.resets}
        for group in ("g", "h"):
            for topic in ("T", "U"):
                for queue in range(3):
                    offset = self.offsets.get(group, topic, queue)
                    assert offset == expected.get((group, topic, queue), NONE)
        assert self.offsets.version >= self.seen
        self.seen = self.offsets.version


TestModel = Model.TestCase


def changed_since(offsets: ConsumerOffsets, count: int) -> list[str] | None:
    """The rows that changed since `count`; None if a replica must copy the whole table."""
    part = offsets.changes.since(count)
    return part.rows if part.is_delta else None


def test_what_changed_since() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    before = offsets.changes.count
    assert changed_since(offsets, before) == []
    offsets.commit("h", "T", 0, 1)
    offsets.commit("h", "T", 1, 2)
    assert changed_since(offsets, before) == ["T@h"]
    assert changed_since(offsets, 0) == ["T@g", "T@h"]
    assert changed_since(offsets, offsets.changes.count + 1) is None


def content(rows: dict[str, dict[int, int]]) -> dict[str, object]:
    version = {"stateVersion": 0, "counter": 3, "timestamp": WALL}
    return {"offsetTable": rows, "dataVersion": version}


def test_a_masters_rows_come_over_ours() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    offsets.commit("h", "T", 0, 7)
    before = offsets.changes.count
    offsets.adopt(content({"T@g": {0: 6}}), whole=False)
    assert (offsets.get("g", "T", 0), offsets.get("h", "T", 0)) == (6, 7)
    assert offsets.version == DataVersion(0, 3, WALL)
    assert changed_since(offsets, before) == ["T@g"]
    offsets.adopt(content({}), whole=True)  # a master that has lost its own
    assert offsets.get("h", "T", 0) == 7
    offsets.adopt(content({"T@g": {0: 9}}), whole=True)
    assert (offsets.get("g", "T", 0), offsets.get("h", "T", 0)) == (9, NONE)


def test_too_many_rows_of_a_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 1)
    offsets = ConsumerOffsets()
    with pytest.raises(ValueError, match="2 rows of offsets are more than 1"):
        offsets.adopt(content({"a@g": {0: 1}, "b@g": {0: 1}}), whole=True)


def test_a_reset_is_marked_and_the_mark_travels() -> None:
    """So that who merges two tables can tell it from an old offset."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 50)
    assert "epochmqResetMarks" not in offsets.content()
    offsets.reset("g", "T", 0, 9, WALL)
    offsets.reset("g", "T", 0, 5, WALL)
    offsets.commit("h", "T", 0, 1)
    assert offsets.content()["epochmqResetMarks"] == {"T@g": {0: WALL + 1}}
    assert (offsets.reset_at("g", "T", 0), offsets.reset_at("h", "T", 0)) == (WALL + 1, 0)
    assert offsets.content({"T@h": {0: 1}})["epochmqResetMarks"] == {}
    again = ConsumerOffsets()
    again.load(json.loads(offsets.encode()))
    assert again.reset_marks == offsets.reset_marks
    replica = ConsumerOffsets()
    replica.adopt(json.loads(offsets.encode()), whole=True)
    assert replica.reset_marks == offsets.reset_marks
    replica.adopt(content({"T@h": {0: 2}}), whole=False)
    assert replica.reset_marks == offsets.reset_marks
    replica.adopt(content({"T@g": {0: 2}}), whole=False)
    assert replica.reset_marks == {}
    again.drop_group("g", WALL)
    assert again.reset_marks == {}


def test_a_merge_takes_no_rows_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 1)
    offsets = ConsumerOffsets()
    offsets.commit("g", "a", 0, 1)
    assert offsets.merge(content({"b@g": {0: 1}, "a@g": {0: 2, 1: -7}}), WALL) == 1
    assert offsets.table == {"a@g": {0: 2}}


marked = st.dictionaries(
    st.sampled_from(["T@g", "T@h", "U@g"]),
    st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 3), st.integers(0, 9))),
)


def table_of(rows: dict[str, dict[int, tuple[int, int]]], counter: int) -> ConsumerOffsets:
    """A table whose queues have (mark, offset); mark 0 is none."""
    made = ConsumerOffsets()
    made.table = {key: {q: at for q, (_, at) in row.items()} for key, row in rows.items()}
    made.reset_marks = {
        key: {q: mark for q, (mark, _) in row.items() if mark} for key, row in rows.items()
    }
    made.version = DataVersion(0, counter, WALL)
    return made


@given(ours=marked, theirs=marked, counters=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_merge_is_the_younger_reset_and_then_the_larger_offset(
    ours: dict[str, dict[int, tuple[int, int]]],
    theirs: dict[str, dict[int, tuple[int, int]]],
    counters: tuple[int, int],
) -> None:
    mine, other = table_of(ours, counters[0]), table_of(theirs, counters[1])
    taken = mine.merge(json.loads(other.encode()), WALL + 1)
    expected: dict[tuple[str, int], tuple[int, int]] = {}
    for rows in (ours, theirs):
        for key, row in rows.items():
            for queue, pair in row.items():
                expected[key, queue] = max(pair, expected.get((key, queue), (0, NONE)))
    found = {
        (key, queue): (mine.reset_marks.get(key, {}).get(queue, 0), offset)
        for key, row in mine.table.items()
        for queue, offset in row.items()
    }
    assert found == expected
    assert taken == sum(pair != ours.get(key, {}).get(q) for (key, q), pair in expected.items())
    assert mine.version == DataVersion(0, max(counters) + 1, WALL + 1)
    assert mine.merge(json.loads(other.encode()), WALL + 2) == 0


def test_what_a_stand_in_did_is_kept_until_its_master_has_all_of_it() -> None:
    """All cases are in test_ahead.py."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 9)
    offsets.version = DataVersion(0, 1_000, 1)
    offsets.keep_own()
    for rows, whole in (({}, True), ({"T@g": {0: 5}}, True), ({"T@g": {0: 6}}, False)):
        offsets.adopt(content(rows), whole=whole)
        assert offsets.get("g", "T", 0) == 9
        assert offsets.version == DataVersion(0, 1_000, 1)
        assert offsets.ahead is not None
    offsets.adopt(content({"T@g": {0: 9}}), whole=False)
    assert offsets.ahead is None
    offsets.adopt(content({"T@g": {0: 5}}), whole=True)
    assert offsets.get("g", "T", 0) == 5


def two_tables() -> tuple[ConsumerOffsets, ConsumerOffsets]:
    """A master's, and its slave's copy."""
    ours, theirs = ConsumerOffsets(), ConsumerOffsets()
    for offsets in (ours, theirs):
        for topic, group in (("T", "g"), ("T", "h"), ("U", "g")):
            offsets.commit(group, topic, 0, 100)
    return ours, theirs


def test_offsets_from_before_a_deletion_are_not_taken() -> None:
    """The other one was away, and is ahead in a topic, or as a group, that is another by now."""
    ours, theirs = two_tables()
    ours.drop_topic("T", WALL)
    ours.commit("g", "T", 0, 2)
    assert ours.merge(json.loads(theirs.encode()), WALL) == 0
    assert ours.table == {"T@g": {0: 2}, "U@g": {0: 100}}
    ours.drop_group("g", WALL)
    ours.merge(json.loads(theirs.encode()), WALL)
    assert ours.table == {}
    theirs.adopt(json.loads(ours.encode()), whole=True)
    theirs.commit("g", "T", 0, 3)
    assert ours.merge(json.loads(theirs.encode()), WALL) == 0, "an empty table deletes nothing"
    theirs.adopt(json.loads(two_tables()[0].encode()), whole=True)


def test_rows_of_a_replica_that_copied_the_deletion_are_merged() -> None:
    ours, theirs = two_tables()
    ours.drop_topic("T", WALL)
    ours.commit("g", "T", 0, 2)
    theirs.adopt(json.loads(ours.encode()), whole=True)
    theirs.commit("g", "T", 0, 3)
    assert ours.merge(json.loads(theirs.encode()), WALL) == 1
    assert ours.row("g", "T") == {0: 3}


def test_a_deletion_that_only_the_other_knows_counts() -> None:
    """A master that died before it could save it."""
    ours, theirs = two_tables()
    ours.reset("h", "T", 0, 90, WALL)
    theirs.drop_topic("T", WALL)
    theirs.commit("g", "T", 0, 2)
    ours.merge(json.loads(theirs.encode()), WALL)
    assert ours.table == {"T@g": {0: 2}, "U@g": {0: 100}}
    assert not ours.has_reset("h", "T", 0)
    assert ours.begun_at("h", "T", 0) == WALL


def test_a_table_of_rocketmqs_says_nothing_of_deletions() -> None:
    ours, _ = two_tables()
    ours.drop_topic("T", WALL)
    ours.merge(content({"T@g": {0: 4}}), WALL)
    assert ours.row("g", "T") == {0: 4}


def test_nothing_is_taken_past_the_end_of_a_queue() -> None:
    ours = ConsumerOffsets()
    told = content({"T@g": {0: 8, 1: 9}, "U@g": {0: 1}})
    assert ours.merge(told, WALL, lambda topic, queue: 8 if topic == "T" else 0) == 1
    assert ours.row("g", "T") == {0: 8}


def test_deletions_are_saved() -> None:
    offsets = ConsumerOffsets()
    offsets.drop_topic("U", WALL)
    again = ConsumerOffsets()
    again.load(json.loads(offsets.encode()))
    assert again.begun_at("g", "U", 0) == WALL


def test_ended_transactions_go_where_their_progress_goes() -> None:
    """More of them in `test_ended_transactions.py`."""
    offsets = ConsumerOffsets()
    offsets.note_ended(5, EndedMark(5, "a"))
    assert changed_since(offsets, 0) is None, "without a progress they go with the whole table"
    offsets.commit(TRANSACTIONS, HALF_TOPIC, 0, 3)
    before = offsets.changes.count
    offsets.note_ended(7, EndedMark(8, "b"))
    rows = changed_since(offsets, before)
    assert rows is not None
    told = offsets.content({key: {} for key in rows})
    assert told[ENDED_FIELD] == offsets.content()[ENDED_FIELD]
    assert ENDED_FIELD not in offsets.content({})
    offsets.forget_ended()
    assert ENDED_FIELD not in offsets.content()
    assert changed_since(offsets, before) == rows
