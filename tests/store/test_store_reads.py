"""The facade's reading side hands on what `Reader` says, up to `readable` only (INV-23)."""

from tests.store.replicas import WALL, fill, opened


def test_nothing_unconfirmed_is_told() -> None:
    store = opened()
    placed = fill(store, 6, topics=("T0",) * 3)
    assert store.topics() == ["T0"]
    assert store.earliest_time() == -1
    assert store.message_at(0) is None
    assert [store.queue_bounds("T0", q) for q in store.queues("T0")] == [(0, 0), (0, 0)]
    assert store.store_time("T0", 0, 0) == -1
    assert store.offset_by_time("T0", 0, WALL + 99) == 0
    assert not store.is_batched("T0")
    store.limit_confirm(placed[-1].offset)
    assert store.earliest_time() == WALL
    assert store.message_at(placed[-1].offset) is None
    assert sum(store.queue_bounds("T0", q)[1] for q in (0, 1)) == 5
    found = store.read_queue("T0", 0, 0, 10, 1 << 20)
    assert found.count == found.max_offset == store.queue_bounds("T0", 0)[1]
