"""A query for a key that very many messages have holds nobody up."""

import time

from sim.kernel.disk import SimDisk
from tests.store.store_internals import reader_of
from tests.store.world import HOST

from epochmq.broker.consume.key_searches import STEP_ITEMS
from epochmq.store.key_query import KeySearch
from epochmq.store.message_index import Index
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

WALL = 1_700_000_000_000
ITEMS = 200_000


def test_a_step_takes_as_long_however_long_the_chain_is() -> None:
    """200,000 messages with one key; asked for a span before all but the first of them."""
    options = StoreOptions(index_slots=64, index_items=2 * ITEMS)
    index = Index(SimDisk(), options)
    index.add([("T", ("hot",), 0, WALL)])
    index.add([("T", ("hot",) * 100, n, WALL + 9000) for n in range(ITEMS // 100)])
    small = StoreOptions(commit_log_file_bytes=1 << 20, index_slots=64, index_items=256)
    store = Store.open(SimDisk(), small, HOST, WALL)
    search = KeySearch(index, reader_of(store), "T", "hot", 32, WALL + 2000, WALL + 3000)
    steps, longest = 1, 0.0
    while True:
        begun = time.thread_time()
        is_over = search.step(STEP_ITEMS)
        longest = max(longest, time.thread_time() - begun)
        if is_over:
            break
        steps += 1
    assert steps > ITEMS // STEP_ITEMS // 2
    assert longest < 0.05
