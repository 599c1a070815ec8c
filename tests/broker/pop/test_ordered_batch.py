"""A batch, and its row in RocketMQ's file."""

import msgspec
import pytest

from epochmq.broker.pop.ordered_pop import BatchRow, OrderedBatch, batches_of, row_of, rows_of
from epochmq.broker.pop.pop_windows import QueueKey

KEY = QueueKey("G", "T", 0)
WALL = 1_700_000_000_000


def test_a_row_has_distances_and_a_batch_offsets() -> None:
    row = BatchRow(popTime=WALL, i=1_000, o=[5, 2, 4], cm=2, oc={7: 3}, l=WALL, a="x")
    batch = batches_of({KEY: row}, 10_000, WALL + 400)[KEY]
    assert batch.offsets == [5, 7, 9]
    assert batch.until == [10_600] * 3
    assert (batch.acked_offsets(), batch.next_offset(), batch.counts) == ({7}, 5, {7: 3})
    assert row_of(batch) == row


def test_what_is_known_of_a_batch_goes_on_with_the_next() -> None:
    old, new, other = (
        OrderedBatch(1, 1, [5, 6, 8, 9]),
        OrderedBatch(2, 1, [6, 7]),
        OrderedBatch(2, 1, [6, 7]),
    )
    old.acked = 0b1101
    new.follow(old)
    assert (new.ahead, new.next_offset()) == ({8, 9}, 6)
    new.acked = 0b11
    assert (new.next_offset(), new.acked_offsets()) == (10, {6, 7, 8, 9})
    row = row_of(new)
    assert row.epochmqAhead == [8, 9]
    assert batches_of({KEY: row}, 0, WALL)[KEY].ahead == {8, 9}
    other.until = new.until = [0, 0]
    other.join(new)
    assert other.ahead == {8, 9}


def test_what_was_over_is_over_and_what_is_empty_is_none() -> None:
    rows = {KEY: BatchRow(popTime=WALL, i=1_000, o=[5]), QueueKey("G", "T", 1): BatchRow(o=[])}
    (batch,) = batches_of(rows, 50, WALL + 99_000).values()
    assert batch.open_until() == 50
    (batch,) = batches_of(rows, 50, WALL - 3_600_000).values()  # the clock went back since
    assert batch.open_until() == 1_050


def test_no_clock_that_went_back_hides_a_message_longer_than_was_asked_for() -> None:
    """As for the invisible time of the pop: a changed one, and one that a longer one outlasted."""
    changed, older = OrderedBatch(WALL, 1_000, [5, 6]), OrderedBatch(WALL, 1_000, [5])
    changed.until, older.until = [1_000, 1_000], [4_000]
    changed.hide(6, 2_000, WALL + 100)
    changed.hold_as(older, 0)
    rows = rows_of(
        msgspec.json.decode(msgspec.json.encode({"table": {"T@G": {0: row_of(changed)}}}))
    )
    for back_ms in (0, 1_000, 900_000):
        (batch,) = batches_of(rows, 50, WALL - back_ms).values()
        assert batch.until == [4_050, 2_050]
    (batch,) = batches_of(rows, 50, WALL + 1_000).values()
    assert batch.until == [3_050, 1_150]


def test_a_length_does_not_outlive_the_wall_time_that_it_belongs_to() -> None:
    """Another replica has a later change, in a row of RocketMQ that says no length."""
    ours, theirs = OrderedBatch(WALL, 1_000, [5]), OrderedBatch(WALL, 1_000, [5])
    ours.until, theirs.until = [100], [60_000]
    ours.hide(5, 100, WALL)
    theirs.visible_wall_ms = {5: WALL + 60_000}
    ours.join(theirs)
    (batch,) = batches_of({KEY: row_of(ours)}, 0, WALL).values()
    assert batch.until == [60_000]


def test_rows_are_named_by_topic_and_group() -> None:
    content = {"table": {"T@G": {"0": {"popTime": 1}}}}
    assert rows_of(content) == {KEY: BatchRow(popTime=1)}
    assert rows_of({}) == {}
    with pytest.raises(msgspec.ValidationError):
        rows_of({"table": {"T@G": 7}})


def test_which_of_two_is_later() -> None:
    first, again, next_one = (
        OrderedBatch(1, 1, [5]),
        OrderedBatch(2, 1, [5]),
        OrderedBatch(1, 1, [6]),
    )
    assert again.is_after(first)
    assert next_one.is_after(again)
    assert not first.is_after(first)


def test_what_lies_before_the_committed_offset_is_acknowledged() -> None:
    batch = OrderedBatch(1, 1, [5, 6, 9])
    assert not batch.ack_before(5)
    assert batch.ack_before(9)
    assert not batch.ack_before(9)
    assert (batch.next_offset(), batch.acked_offsets()) == (9, {5, 6})
