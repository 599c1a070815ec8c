"""The record decides whether a key's message is the one asked for."""

from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.model.record import decode
from epochmq.store.draft import Draft
from epochmq.store.held_keys import Row
from epochmq.store.index_file import SET_BACK_MS
from epochmq.store.key_query import KeySearch
from epochmq.store.message_index import Index, IndexResult
from epochmq.store.store import Store

WALL = 1_700_000_000_000


def filled() -> Store:
    store = Store.open(SimDisk(), SMALL, HOST, WALL)
    keys = ("Aa", "BB", "same", "same")  # "Aa" and "BB" have one hash in Java
    for number, key in enumerate(keys):
        draft = Draft("T", 0, b"%d" % number, f"KEYS\x01{key}\x02".encode(), 0, (key,),
                      born_host=HOST)  # fmt: skip
        store.append([draft], WALL + number * 1500)
    return store


def found(store: Store, *args: object) -> list[bytes]:
    return [decode(r).body for r in store.query_index(*args).records]  # type: ignore[arg-type]


def test_other_keys_of_the_same_hash_are_left_out() -> None:
    store = filled()
    assert found(store, "T", "Aa", 9, 0, 1 << 60) == [b"0"]
    assert found(store, "T", "BB", 9, 0, 1 << 60) == [b"1"]
    assert found(store, "U", "BB", 9, 0, 1 << 60) == []


def test_the_newest_in_order_within_count_and_time() -> None:
    store = filled()
    assert found(store, "T", "same", 9, 0, 1 << 60) == [b"2", b"3"]
    assert found(store, "T", "same", 1, 0, 1 << 60) == [b"3"]
    assert found(store, "T", "same", 9, WALL + 3000, WALL + 3000) == [b"2"]
    assert found(store, "T", "same", 9, WALL + 3001, WALL + 4500) == [b"3"]
    result = store.query_index("T", "same", 9, 0, 1 << 60)
    assert result.last_update_ms == WALL + 4500


def test_no_index() -> None:
    from dataclasses import replace

    store = Store.open(SimDisk(), replace(SMALL, index=False), HOST, WALL)
    assert store.query_index("T", "k", 1, 0, 1) == IndexResult([], 0, 0)


def test_a_search_goes_on_where_it_was_and_stops_before_its_span() -> None:
    """A chain of many messages with one key costs as much a step as asked for."""
    index = Index(SimDisk(), replace(SMALL, index_items=5000))
    rows: list[Row] = [("T", ("hot",), n, WALL + n * SET_BACK_MS) for n in range(1000)]
    index.add(rows)
    store = Store.open(SimDisk(), SMALL, HOST, WALL)

    def steps(begin: int, end: int) -> int:
        search = KeySearch(index, store._reader, "T", "hot", 8, begin, end)
        count = 1
        while not search.step(100):
            count += 1
        assert search.result.records == []
        return count

    assert steps(0, WALL - 1) == 1  # no file begins before
    assert steps(WALL + 1, WALL + 2) == 11  # all are newer
    assert steps(WALL + 990 * SET_BACK_MS + 1, WALL + 991 * SET_BACK_MS - 1) == 1


def test_a_search_outlives_its_file() -> None:
    index = Index(SimDisk(), replace(SMALL, index_items=5000))
    index.add([("T", ("hot",), n, WALL) for n in range(1000)])
    store = Store.open(SimDisk(), SMALL, HOST, WALL)
    search = KeySearch(index, store._reader, "T", "hot", 8, 0, WALL - 1 + (1 << 40))
    assert not search.step(0)
    index.close()
    assert search.step(100)
