"""The places of a key: all of them, or the answer says that some may be missing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk
from tests.store.store_internals import flip_bit, index_of
from tests.store.world import HOST, SMALL

from epochmq.base import limits
from epochmq.base.errors import DiskFull
from epochmq.model.record import decode_all
from epochmq.store import index_checksums
from epochmq.store.checkpoint import FILE as CHECKPOINT
from epochmq.store.draft import Draft
from epochmq.store.index_file import HEADER
from epochmq.store.key_query import KeyPlaces
from epochmq.store.message_index import START_FILE, Index
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

WALL = 1_700_000_000_000
OPTIONS = replace(SMALL, commit_log_file_bytes=1 << 16)
KEYS = ("Aa", "BB", "k", "key two", "\u00e4")  # "Aa" and "BB" have one hash in Java
TOPICS = ("T", "U")


def draft(topic: str, queue_id: int, *keys: str) -> Draft:
    text = f"KEYS\x01{' '.join(keys)}\x02".encode() if keys else b""
    words = tuple(word for key in keys for word in key.split())
    return Draft(topic, queue_id, b"b", text, 0, words, born_host=HOST)


def opened(disk: SimDisk, options: StoreOptions = OPTIONS) -> Store:
    return Store.open(disk, options, HOST, WALL)


def places(store: Store, topic: str, key: str, step: int = 7) -> KeyPlaces:
    search = store.keys.places(topic, key)
    assert search is not None
    while not search.step(step):
        pass
    return search.result


def stored(store: Store, topic: str, key: str) -> dict[int, set[int]]:
    """What a reader of the queues finds."""
    found: dict[int, set[int]] = {}
    for queue_id in store.queues(topic):
        low, high = store.queue_bounds(topic, queue_id)
        for chunk in store.read_queue(topic, queue_id, low, high - low, 1 << 20).chunks:
            for message in decode_all(chunk):
                if key in message.properties.get("KEYS", "").split(" "):
                    found.setdefault(queue_id, set()).add(message.queue_offset)
    return found


sent = st.lists(
    st.tuples(
        st.sampled_from(TOPICS), st.integers(0, 2), st.lists(st.sampled_from(KEYS), max_size=2)
    ),
    max_size=60,
)


@given(sent, st.sampled_from(["open", "stopped", "killed"]), st.integers(1, 40))
def test_all_places_and_no_others(
    rows: list[tuple[str, int, list[str]]], then: str, step: int
) -> None:
    disk = SimDisk()
    store = opened(disk)
    expected: dict[tuple[str, str], dict[int, set[int]]] = {}
    nexts: dict[tuple[str, int], int] = {}
    for number, (topic, queue_id, keys) in enumerate(rows):
        store.append([draft(topic, queue_id, *keys)], WALL + number * 700)
        at = nexts.get((topic, queue_id), 0)
        nexts[topic, queue_id] = at + 1
        for word in {word for key in keys for word in key.split()}:
            expected.setdefault((topic, word), {}).setdefault(queue_id, set()).add(at)
        store.sync()
        store.tick(number * 50, WALL + number * 700)
        store.chores.run_all()
    if then == "stopped":
        store.close(WALL)
    if then != "open":
        store = opened(disk if then == "stopped" else disk.kill())
    for topic in TOPICS:
        for word in ("Aa", "BB", "k", "key", "two", "\u00e4", "none"):
            found = places(store, topic, word, step)
            assert found == KeyPlaces(True, 0, expected.get((topic, word), {}))


def with_keys(count: int, disk: SimDisk, options: StoreOptions = OPTIONS) -> Store:
    store = opened(disk, options)
    for number in range(count):
        store.append([draft("T", number % 2, f"k{number % 9}", "all")], WALL + number * 1000)
    return store


def test_too_many_places_are_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    store = with_keys(30, SimDisk())
    monkeypatch.setattr(limits, "KEY_PLACES_MAX", 30)
    assert places(store, "T", "all").complete
    monkeypatch.setattr(limits, "KEY_PLACES_MAX", 29)
    assert not places(store, "T", "all").complete
    assert places(store, "T", "k3").complete


def test_a_store_without_an_index_cannot_tell() -> None:
    store = with_keys(3, SimDisk(), replace(OPTIONS, index=False))
    assert store.keys.places("T", "all") is None


def test_keys_that_do_not_fit_on_the_disk_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = with_keys(3, SimDisk())

    def add(*_: object) -> None:
        raise DiskFull("index/1")

    with monkeypatch.context() as patched:
        patched.setattr(Index, "add", add)
        assert store.keys.places("T", "all") is None
    assert places(store, "T", "all") == KeyPlaces(True, 0, {0: {0, 1}, 1: {0}})


def test_batches_in_one_record_cannot_be_told() -> None:
    store = Store.open(SimDisk(), OPTIONS, HOST, WALL, types=lambda topic: topic == "Batch")
    assert store.keys.places("Batch", "k") is None
    assert store.keys.places("T", "k") is not None


def test_what_was_stored_without_an_index_is_not_claimed() -> None:
    """A log that is cut while no index is kept would leave keys out for ever."""
    disk = SimDisk()
    store = with_keys(5, disk)
    assert places(store, "T", "all").complete_from == 0
    store.close(WALL)
    store = with_keys(5, disk, replace(OPTIONS, index=False))
    end = store.pointers.appended
    store.close(WALL)
    store = with_keys(5, disk)
    found = places(store, "T", "all")
    assert found.complete
    assert 0 < found.complete_from <= end
    assert found.found == {0: set(range(9)), 1: set(range(6))} == stored(store, "T", "all")
    store.close(WALL)
    again = places(opened(disk), "T", "all")
    assert again.complete_from == found.complete_from, "what is known stays"


def test_a_damaged_note_claims_nothing_old() -> None:
    disk = SimDisk()
    store = with_keys(5, disk)
    store.close(WALL)
    noted = disk.read_file(START_FILE)
    assert noted is not None
    flipped = [
        bytes(byte ^ (1 << bit) * (place == at) for place, byte in enumerate(noted))
        for at in range(len(noted))
        for bit in range(8)
    ]
    for damaged in [b"", b"0", noted[:-1], noted + b"!", noted * 2, *flipped]:
        disk.write_file(START_FILE, damaged)
        store = opened(disk.kill())
        assert 0 < places(store, "T", "all").complete_from <= store.pointers.appended


def test_a_store_that_rocketmq_wrote_claims_nothing_old() -> None:
    disk = SimDisk()
    store = with_keys(5, disk)
    store.close(WALL)
    data = disk.read_file(CHECKPOINT)
    assert data is not None
    disk.write_file(CHECKPOINT, data[:40].ljust(4096, b"\0"))
    store = opened(disk)
    end = store.pointers.appended
    assert 0 < places(store, "T", "all").complete_from <= end


def test_a_file_that_closes_under_a_search_is_not_complete() -> None:
    store = with_keys(200, SimDisk())
    search = store.keys.places("T", "all")
    assert search is not None
    assert not search.step(1)
    for file in index_of(store).files:
        file.close()
    assert search.step(1 << 20)
    assert not search.result.complete


# Damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "page", "each"), [(0, 16, 1), (1, 16, 5), (2, 16, 5), (1, 1 << 14, 5)]
)
def test_no_flipped_bit_of_the_index_hides_a_message(
    number: int, page: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start builds again what it can see; a search notices the rest."""
    monkeypatch.setattr(index_checksums, "PAGE", page)
    options = replace(OPTIONS, index_slots=8, index_items=12)
    disk = SimDisk()
    with_keys(14, disk, options).close(WALL)
    words = ["all", *(f"k{n}" for n in range(9)), "none"]
    clean = opened(disk.kill(), options)
    assert len(index_of(clean).files) == 3
    expected = {word: places(clean, "T", word).found for word in words}
    assert expected["all"] == {0: set(range(7)), 1: set(range(7))}
    used = HEADER.size + 4 * 8 + 20 * index_of(clean).files[number].count
    path = f"index/{disk.list('index')[number]}"
    kept = disk.open(path).read(0, used)
    incomplete = 0
    for at in range(0, used * 8, each):
        copy = disk.kill()
        copy.open(path).write(at >> 3, bytes([kept[at >> 3] ^ 1 << (at & 7)]))
        store = opened(copy, options)
        for word in words:
            found = places(store, "T", word)
            incomplete += not found.complete
            assert not found.complete or found.found == expected[word], (at, word)
    assert (incomplete > 0) == (page == 16)


def test_a_file_that_is_full_is_checked_after_a_crash() -> None:
    options = replace(OPTIONS, index_slots=8, index_items=12)
    disk = SimDisk()
    store = with_keys(14, disk, options)
    store.sync()
    for number in range(20):
        store.tick(number * 100, WALL)
        store.chores.run_all()
    after = disk.kill()
    names = after.list("index")
    assert after.list(index_checksums.FOLDER) == names[:2], "the last one is not full"
    file = after.open(f"index/{names[0]}")
    file.write(HEADER.size + 8 * 4 + 45, bytes([file.read(HEADER.size + 8 * 4 + 45, 1)[0] ^ 4]))
    store = opened(after, options)
    assert places(store, "T", "all") == KeyPlaces(True, 0, {0: set(range(7)), 1: set(range(7))})
    assert store.verify().problems == []


def test_a_damaged_record_is_not_left_out() -> None:
    """The reader of the queue gets the error that says what is damaged."""
    disk = SimDisk()
    store = with_keys(5, disk)
    assert places(store, "T", "k2").complete
    flip_bit(store, disk.contents()["commitlog/" + "0" * 20].index(b"k2"))
    assert not places(store, "T", "k2").complete
    assert places(store, "T", "k0").complete
