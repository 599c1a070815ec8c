"""The memory of stores that come and go."""

import gc

import pytest
from sim.kernel.disk import SimDisk
from tests.native.test_memory import sizes
from tests.store.world import HOST, SMALL

from epochmq.native import library
from epochmq.store.store import Store


@pytest.mark.skipif(library.library() is None, reason=library.which())
def test_stores_that_come_and_go_leave_nothing() -> None:
    """A store has 30 MiB of it; a test process has opened thousands, a container opens many."""
    gc.collect()
    before = sizes()
    for _ in range(3):
        stores = [Store.open(SimDisk(), SMALL, HOST, 1_700_000_000_000) for _ in range(40)]
        for store in stores:
            store._follower.begin()
            assert store._native_messages.remaker is not None
            assert store._appender._native_batch is not None
        virtual, resident = sizes()
        assert virtual - before[0] > 500 << 20
        assert resident - before[1] < 32 << 20
        del stores, store
        gc.collect()
    virtual, resident = sizes()
    assert virtual - before[0] < 64 << 20
    assert resident - before[1] < 16 << 20


def test_a_store_asks_for_it_when_it_is_needed() -> None:
    gc.collect()
    before, _ = sizes()
    stores = [Store.open(SimDisk(), SMALL, HOST, 1_700_000_000_000) for _ in range(40)]
    assert sizes()[0] - before < 64 << 20
    assert len(stores) == 40
