"""What a former acting master keeps, while its master's tables do not have it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.consume.consumer_offsets import NONE, ConsumerOffsets
from epochmq.model.data_version import DataVersion

WALL = 1_700_000_000_000
OLD, NEW = 3, 4
"""Counters of versions."""


def told(
    rows: dict[str, dict[int, int]],
    marks: dict[str, dict[int, int]] | None = None,
    counter: int = OLD,
) -> dict[str, object]:
    content = {"offsetTable": rows, "dataVersion": {"counter": counter}}
    if marks:
        content["epochmqResetMarks"] = marks
    return json.loads(json.dumps(content))  # type: ignore[no-any-return]


def stood_in(**queues: int) -> ConsumerOffsets:
    """Queues of `T@g` by name: q0, q1."""
    offsets = ConsumerOffsets()
    offsets.keep_own()
    for name, offset in queues.items():
        offsets.commit("g", "T", int(name[1:]), offset, WALL)
    return offsets


def test_a_master_that_has_everything_ends_it() -> None:
    offsets = stood_in(q0=9)
    offsets.adopt(told({"T@g": {0: 9}, "U@g": {0: 1}}), whole=True)
    assert offsets.ahead is None
    assert offsets.table == {"T@g": {0: 9}, "U@g": {0: 1}}
    offsets.adopt(told({"T@g": {0: 2}}), whole=True)
    assert offsets.table == {"T@g": {0: 2}}, "an ordinary slave has what its master has"


def test_older_offsets_of_a_master_that_took_nothing_back_set_nothing_back() -> None:
    offsets = stood_in(q0=9, q1=4)
    offsets.adopt(told({"T@g": {0: 5, 1: 6}, "U@g": {0: 1}}), whole=True)
    assert offsets.table == {"T@g": {0: 9, 1: 6}, "U@g": {0: 1}}
    offsets.adopt(told({"T@g": {0: 7, 1: 6}}), whole=False)
    assert offsets.row("g", "T") == {0: 9, 1: 6}
    assert offsets.ahead is not None
    offsets.adopt(told({"T@g": {0: 10, 1: 6}}), whole=False)
    assert offsets.row("g", "T") == {0: 10, 1: 6}
    assert offsets.ahead is None, "it has gone past everything"


def test_the_version_never_goes_back_meanwhile() -> None:
    offsets = stood_in(q0=9)
    offsets.version = DataVersion(0, 1_000, 1)
    offsets.adopt(told({"T@g": {0: 5}}), whole=True)
    assert offsets.version == DataVersion(0, 1_000, 1)


def test_what_the_master_does_not_know_stays() -> None:
    offsets = stood_in(q0=9)
    offsets.adopt(told({"U@g": {0: 1}}), whole=True)
    assert offsets.get("g", "T", 0) == 9
    offsets.adopt(told({"U@g": {0: 2}}), whole=True)
    assert offsets.get("g", "T", 0) == 9


def test_what_was_deleted_at_the_master_goes() -> None:
    offsets = stood_in(q0=9)
    offsets.adopt(told({"T@g": {0: 5}, "U@g": {0: 1}}), whole=True)
    offsets.adopt(told({"U@g": {0: 1}}), whole=True)
    assert offsets.get("g", "T", 0) == NONE
    assert offsets.ahead is None


def test_an_empty_table_takes_nothing_away() -> None:
    offsets = stood_in(q0=9)
    offsets.adopt(told({}), whole=True)
    assert offsets.get("g", "T", 0) == 9
    assert offsets.ahead is not None


def test_what_is_set_back_at_the_master_while_we_watch_counts() -> None:
    """Its consumers did that, or an operator: theirs is the word."""
    for whole in (False, True):
        offsets = stood_in(q0=9)
        offsets.adopt(told({"T@g": {0: 5}}), whole=True)
        offsets.adopt(told({"T@g": {0: 2}}), whole=whole)
        assert offsets.get("g", "T", 0) == 2


def test_a_master_that_lost_its_last_ones_sets_nothing_back() -> None:
    """Restarted, with an older version of its table."""
    offsets = stood_in(q0=9)
    offsets.adopt(told({"T@g": {0: 5}}, counter=NEW), whole=True)
    offsets.adopt(told({"T@g": {0: 2}}, counter=OLD), whole=True)
    assert offsets.get("g", "T", 0) == 9


def test_an_operators_reset_at_the_master_counts_at_once() -> None:
    offsets = stood_in(q0=9)
    offsets.adopt(told({"T@g": {0: 2}}, {"T@g": {0: WALL}}), whole=True)
    assert offsets.get("g", "T", 0) == 2
    assert offsets.reset_at("g", "T", 0) == WALL
    assert offsets.ahead is None


def test_a_reset_at_the_stand_in_stays_until_the_master_goes_on() -> None:
    offsets = stood_in(q0=9)
    offsets.reset("g", "T", 0, 3, WALL)
    offsets.pop_reset("g", "T", 0)
    offsets.adopt(told({"T@g": {0: 5}}), whole=True)
    assert (offsets.get("g", "T", 0), offsets.reset_at("g", "T", 0)) == (3, WALL)
    offsets.adopt(told({"T@g": {0: 5}}), whole=False)
    assert (offsets.get("g", "T", 0), offsets.reset_at("g", "T", 0)) == (3, WALL)
    offsets.adopt(told({"T@g": {0: 6}}), whole=False)
    assert offsets.get("g", "T", 0) == 6


def test_a_row_that_comes_first_as_a_change_is_looked_at_alike() -> None:
    offsets = stood_in(q0=9)
    offsets.adopt(told({"T@g": {0: 5}}), whole=False)
    assert offsets.get("g", "T", 0) == 9


def test_what_was_ours_of_a_topic_that_was_created_again_goes() -> None:
    """The master deleted it while this slave was away, debts and all."""
    offsets = stood_in(q0=100)
    offsets.commit("g", "U", 0, 7, WALL)
    recreated = {"T@g": {0: 2}, "U@g": {0: 5}}
    offsets.adopt({**told(recreated), "epochmqDropped": {"T@": WALL}}, whole=True)
    assert offsets.table == {"T@g": {0: 2}, "U@g": {0: 7}}
    offsets.adopt(told({"T@g": {0: 3}}), whole=False)
    assert offsets.get("g", "T", 0) == 3
    offsets.adopt({**told({"T@g": {0: 3}, "U@g": {0: 7}}), "epochmqDropped": {}}, whole=True)
    assert offsets.ahead is None


def test_a_deletion_that_the_master_has_forgotten_still_counts() -> None:
    offsets = stood_in(q0=100)
    offsets.drop_topic("T", WALL)
    offsets.commit("g", "T", 0, 2)
    offsets.adopt({**told({"T@g": {0: 90}}), "epochmqDropped": {}}, whole=True)
    assert offsets.get("g", "T", 0) == 2


ROWS = st.dictionaries(
    st.sampled_from(["T@g", "U@g"]), st.dictionaries(st.integers(0, 2), st.integers(0, 9)),
    max_size=2,
)  # fmt: skip


@given(ours=ROWS, tables=st.lists(st.tuples(ROWS, st.booleans()), max_size=6))
def test_an_offset_goes_back_only_where_the_masters_own_did(
    ours: dict[str, dict[int, int]], tables: list[tuple[dict[str, dict[int, int]], bool]]
) -> None:
    offsets = ConsumerOffsets()
    for key, row in ours.items():
        for queue_id, offset in row.items():
            offsets.commit("g", key[0], queue_id, offset, WALL)
    offsets.keep_own()
    master: dict[str, dict[int, int]] | None = None
    for rows, whole in tables:
        before = {key: dict(row) for key, row in offsets.table.items()}
        known = {} if master is None else master
        now = rows if whole else {**known, **rows}
        if whole and not rows:
            now = known
        offsets.adopt(told(rows), whole=whole)
        for key, row in before.items():
            for queue_id, offset in row.items():
                after = offsets.table.get(key, {}).get(queue_id, NONE)
                told_before = known.get(key, {}).get(queue_id, NONE)
                told_now = now.get(key, {}).get(queue_id, NONE)
                assert after >= offset or told_now < told_before
        master = now
        if offsets.ahead is None:
            return
