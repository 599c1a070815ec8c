"""A put is answered once, when each of its messages has its one outcome."""

from collections.abc import Sequence

from epochmq.broker.escape.forward_batch import Batch, Item
from epochmq.broker.internal_writes.internal_writer import Outcome
from epochmq.store.draft import Draft


def test_it_is_answered_once_and_in_order() -> None:
    said: list[Sequence[Outcome]] = []
    items = [Item(Draft("T", 0, b"x", b""), "T", 1)] * 2
    batch = Batch(items, 7, said.append, 5)
    first, second = batch.forward_items
    assert (first.id, second.id, batch.since_ms) == (7, 8, 5)
    second.set_outcome(Outcome.STORED)
    second.set_outcome(Outcome.LATER)  # the first counts
    assert second.over
    assert not first.over
    assert said == []
    first.set_outcome(Outcome.LATER)
    assert batch.over
    assert said == [[Outcome.LATER, Outcome.STORED]]
