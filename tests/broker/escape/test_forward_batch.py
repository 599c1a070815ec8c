"""A put is answered once, when each of its messages has its one outcome."""

from collections.abc import Sequence

from epochmq.broker.escape.forward_batch import ForwardBatch, ForwardedMessage
from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.store.draft import Draft


def test_it_is_answered_once_and_in_order() -> None:
    said: list[Sequence[WriteOutcome]] = []
    items = [ForwardedMessage(Draft("T", 0, b"x", b""), "T", 1)] * 2
    batch = ForwardBatch(items, 7, said.append, 5)
    first, second = batch.forward_items
    assert (first.id, second.id, batch.since_ms) == (7, 8, 5)
    second.set_outcome(WriteOutcome.STORED)
    second.set_outcome(WriteOutcome.LATER)  # the first counts
    assert second.over
    assert not first.over
    assert said == []
    first.set_outcome(WriteOutcome.LATER)
    assert batch.over
    assert said == [[WriteOutcome.LATER, WriteOutcome.STORED]]
