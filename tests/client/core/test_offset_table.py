"""Offsets only rise, except on purpose; what could not be saved is tried again."""

from epochmq.client.core.consumer_state import OffsetTable
from epochmq.model.topic import MessageQueue

Q = MessageQueue("t", "b", 0)


def test_offsets_never_go_back_by_themselves() -> None:
    table = OffsetTable()
    table.advance(Q, 5)
    table.advance(Q, 3)
    assert table.get(Q) == 5
    table.reset(Q, 1)
    assert table.pop_unsaved() == {Q: 1}
    assert table.pop_unsaved() == {}


def test_a_failed_save_is_repeated_unless_overtaken() -> None:
    table = OffsetTable()
    table.advance(Q, 5)
    taken = table.pop_unsaved(Q)
    table.not_saved(Q, taken[Q])
    assert table.pop_unsaved(Q) == {Q: 5}
    table.advance(Q, 7)
    table.not_saved(Q, 5)
    assert table.pop_unsaved(Q) == {Q: 7}
    assert table.pop_unsaved(Q) == {}


def test_a_dropped_queue_is_forgotten() -> None:
    table = OffsetTable()
    table.loaded(Q, 4)
    assert table.snapshot() == {Q: 4}
    table.drop(Q)
    assert table.get(Q) is None
