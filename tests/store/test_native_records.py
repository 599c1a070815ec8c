"""A follower with the native code and one without, fed the same bytes, sound and hostile."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk
from tests.native import fuzz
from tests.store.replicas import REPLICATED, WALL, fill, log_bytes, opened, ship
from tests.store.store_internals import index_of
from tests.store.world import HOST, has_batch_queues
from tests.tiers import examples

from epochmq.base.errors import PeerError
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.model.record import BLANK, MAGIC_BLANK, encode
from epochmq.model.sys_flag import TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from epochmq.native import library
from epochmq.store.native_records import NativeRecords
from epochmq.store.store import Store

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

SIZE = 16 * 1024
OPTIONS = replace(REPLICATED, commit_log_file_bytes=SIZE, index_items=400, index_slots=100)
TOPICS = ("T", "T", "T", "U", "é" * 40, "W" * 200, "Batch0", SCHEDULE_TOPIC)
HOSTS = (HOST, HOST, HOST, bytes(20))
KINDS = (0, 0, 0, 0, TX_PREPARED, TX_COMMIT, TX_ROLLBACK)


@contextmanager
def without_native() -> Iterator[None]:
    """Whoever asks for the library meanwhile gets none."""
    found = library.library
    library.library = lambda: None  # type: ignore[assignment]
    try:
        yield
    finally:
        library.library = found


def a_log(rng: Random, count: int, *, odd: bool) -> tuple[bytes, list[int]]:
    """Records of some queues, blanks at the files' ends; and where records begin.

    With `odd` queue offsets now and then jump, start again or go back, and clocks do.
    """
    data, begins = bytearray(), []
    nexts: dict[tuple[str, int], int] = {}
    wall = WALL
    for number in range(count):
        topic, queue_id = rng.choice(TOPICS[: 8 if odd else 5]), rng.randrange(2)
        kind = rng.choice(KINDS)
        queue_offset = nexts.get((topic, queue_id), rng.choice((0, 0, 7)))
        if odd and rng.random() < 0.05:
            queue_offset = max(0, rng.choice((0, queue_offset + 3, queue_offset - 2)))
        if odd and rng.random() < 0.05:
            wall = max(1, wall + rng.choice((5000, -2000, -3000, -60_000)))
        text = fuzz.a_text(rng).encode() if odd else b"UNIQ_KEY\x01k%d\x02TAGS\x01a" % number
        if odd and rng.random() < 0.03:
            text += rng.choice((b"\0", b"\xff", b"\x02TAGS\x01\xed\xa0\x80"))
        body = rng.randbytes(rng.choice((1, 20, 63, 64, 200, 900)))
        record = encode(
            topic.encode(),
            body,
            text,
            queue_id,
            0,
            0,
            0,
            kind,
            WALL,
            rng.choice(HOSTS),
            wall,
            rng.choice(HOSTS),
            0,
            0,
        )
        room = SIZE - len(data) % SIZE
        if len(record) + 8 > room:
            data += BLANK.pack(room, MAGIC_BLANK) + bytes(room - 8)
        if kind in (TX_PREPARED, TX_ROLLBACK):
            queue_offset = 0
        else:
            nexts[topic, queue_id] = queue_offset + 1
        begins.append(len(data))
        data += record[:20] + queue_offset.to_bytes(8, "big")
        data += begins[-1].to_bytes(8, "big") + record[36:]
    return bytes(data), begins


def a_follower() -> Store:
    return Store.open(SimDisk(), OPTIONS, HOST, WALL, has_batch_queues)


def feed(store: Store, data: bytes, chunks: list[int], confirm: float) -> str:
    """Give `data` in such pieces; how it ended."""
    at = 0
    while at < len(data):
        piece = data[at : at + chunks[at % len(chunks)]]
        try:
            store.append_raw(at, piece)
        except PeerError as error:
            return f"{at}: {error}"
        at += len(piece)
        store.limit_confirm(int(at * confirm))
    return "all"


def state(store: Store) -> object:
    """Everything that follows from the log, as far as it can be compared."""
    queues = store._queues.all()
    pointers = store.pointers
    store.limit_confirm(1 << 60)
    store._housekeeping.index_staged()
    return (
        [(q.topic, q.queue_id, q.min, q.next, q.visible, q.units(q.min, 9999)) for q in queues],
        [queue.folder for queue in store._queues.dirty],
        list(index_of(store).items()),
        (pointers.appended, pointers.confirmed, store.whole_end),
        (store._appender.last_wall, store._checkpoint.log_wall_ms, store._follower._head_at),
        store._follower._dispatcher.oddities,
        bytes(store.slice(0, 1 << 30)),
    )


def compare(data: bytes, chunks: list[int], confirm: float = 1.0) -> str:
    compiled = a_follower()
    ended = feed(compiled, data, chunks, confirm)
    assert compiled._follower._native is not None
    with without_native():
        python = a_follower()
        assert feed(python, data, chunks, confirm) == ended
        assert python._follower._native is None
    assert state(compiled) == state(python)
    return ended


CHUNKS = st.lists(st.sampled_from((1, 7, 80, 777, 3000, SIZE)), min_size=1, max_size=4)


@settings(max_examples=examples(60))
@given(st.integers(0, 1 << 32), st.booleans(), CHUNKS, st.sampled_from((1.0, 0.6)))
def test_the_same_log_gives_the_same_store(
    seed: int, odd: bool, chunks: list[int], confirm: float
) -> None:
    rng = Random(seed)
    data, _ = a_log(rng, rng.randrange(1, 60), odd=odd)
    chunks = [max(chunk, 80) for chunk in chunks] if len(data) > 20_000 else chunks
    compare(data, chunks, confirm)


@settings(max_examples=examples(80))
@given(st.integers(0, 1 << 32), CHUNKS)
def test_the_same_damage_is_found_at_the_same_place(seed: int, chunks: list[int]) -> None:
    rng = Random(seed)
    data, begins = a_log(rng, rng.randrange(2, 12), odd=rng.random() < 0.3)
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2))):
        near = rng.choice(begins) + rng.choice((0, rng.randrange(100), rng.randrange(1000)))
        at = min(near, len(made) - 1)
        made[at] ^= rng.choice((1, 0x80, 0xFF, 1 << rng.randrange(8)))
    compare(bytes(made), [max(chunk, 80) for chunk in chunks])


def test_each_byte_of_a_record_counts() -> None:
    data, begins = a_log(Random(3), 3, odd=False)
    ends = []
    for at in range(begins[1], begins[2]):
        made = bytearray(data)
        made[at] ^= 0x41
        ends.append(compare(bytes(made), [SIZE]))
    assert ends.count("all") < len(ends) // 2 + 60  # flag, ids, hosts and times are not checked


def test_a_negative_queue_offset_is_damage() -> None:
    data, begins = a_log(Random(3), 3, odd=False)
    for begin in begins:
        made = bytearray(data)
        made[begin + 20] ^= 0x80
        assert "torn or foreign" in compare(bytes(made), [SIZE])


def test_ordinary_records_are_all_taken_in_one_call() -> None:
    data, _ = a_log(Random(1), 30, odd=False)
    native = library.library()
    assert native is not None
    assert len(data) < SIZE
    taken = NativeRecords(native, index=True, crc=True).decode(memoryview(data), 0, 0, len(data))
    assert taken is not None
    assert (taken.count, taken.end) == (30, len(data))
    assert sum(group.count for group in taken.groups) < 30  # some have no unit
    assert taken.keys is not None
    assert taken.keys.offset == 0


def test_without_checksums_native_code_compares_none() -> None:
    data, _ = a_log(Random(1), 1, odd=False)
    made = bytearray(data)
    made[8] ^= 1
    native = library.library()
    assert native is not None
    view = memoryview(made).toreadonly()
    assert NativeRecords(native, index=True, crc=True).decode(view, 0, 0, len(view)) is None
    taken = NativeRecords(native, index=False, crc=False).decode(view, 0, 0, len(view))
    assert taken is not None
    assert (taken.count, taken.end, taken.keys) == (1, len(view), None)


def test_all_sorts_of_batches_of_queues_fit() -> None:
    """More queues than one call has room for."""
    data = bytearray()
    for number in range(700):
        record = encode(
            b"T%d" % number,
            b"b",
            b"",
            number % 9,
            0,
            5,
            len(data),
            0,
            WALL,
            HOST,
            WALL,
            HOST,
            0,
            0,
        )
        room = SIZE - len(data) % SIZE
        if len(record) + 8 > room:
            data += BLANK.pack(room, MAGIC_BLANK) + bytes(room - 8)
            record = record[:28] + len(data).to_bytes(8, "big") + record[36:]
        data += record
    assert compare(bytes(data), [SIZE]) == "all"


def test_a_master_made_log_is_the_same_too() -> None:
    master = opened()
    fill(master, 40)
    follower = opened()
    ship(master, follower)
    assert log_bytes(follower) == log_bytes(master)
    assert follower.verify().problems == []
