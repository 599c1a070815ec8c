"""One call from a batch's body to records, units, keys and ids, by the layouts' golden bytes."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.native.fuzz import HOST, a_body
from tests.store.world import SMALL

from epochmq.base.errors import HeaderError
from epochmq.model import batch
from epochmq.model.record import decode_all
from epochmq.native import library
from epochmq.store.draft import Draft
from epochmq.store.native_batch import CheckedBatch, Placed
from epochmq.store.store import Store

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

WALL = 1_663_545_600_001
GOLDEN = (
    "00000069daa320a73610a6860000000300000007000000000000002a0000000000000102000000000000018353"
    "0b68000a00000200009c4000000183530b68017f00000100002a9f000000010000000000000000000000056865"
    "6c6c6f02543100074b455953016b31"
)
"""The record of test_append.py; a tail of one pair stands behind its KEYS here."""


def opened(**changes: object) -> tuple[SimDisk, Store]:
    disk = SimDisk()
    store = Store.open(disk, replace(SMALL, **changes), HOST, WALL)  # type: ignore[arg-type]
    return disk, store


def request(
    body: bytes, topic: str = "T1", tail: bytes = b"\x02C\x01c", key: bytes = b""
) -> CheckedBatch:
    born = bytes((10, 0, 0, 2)) + (40000).to_bytes(4, "big")
    return CheckedBatch(topic, 3, body, 0, 1_663_545_600_000, born, 1, tail, tail, key)


def entry(body: bytes, properties: bytes, flag: int = 7) -> bytes:
    size = 22 + len(body) + len(properties)
    head = size.to_bytes(4, "big") + bytes(8) + flag.to_bytes(4, "big", signed=True)
    sized = len(body).to_bytes(4, "big") + body
    return head + sized + len(properties).to_bytes(2, "big") + properties


def test_golden_record_of_the_java_classes() -> None:
    _disk, store = opened()
    store.append([Draft("T1", 3, b"x" * (258 - 93), b"", born_host=HOST)], WALL)
    queue = store._queues.get("T1", 3)
    queue.place(0, 42)
    placed = store.append_packed(request(entry(b"hello", b"KEYS\x01k1")), WALL)
    ids = b"7F00000100002A9F0000000000000102"
    assert placed == Placed(258, 109, 42, 1, ids)
    record = bytearray(store.message_at(258) or b"")
    assert record[-4:] == b"\x02C\x01c"
    record[3], record[-12] = 0x69, 7
    assert record[:-4].hex() == GOLDEN
    assert bytes(queue.tail).hex() == "00000000000001020000006d0000000000000000"
    assert [message.offset for message in decode_all(bytes(store.message_at(258) or b""))] == [258]
    assert len(store.query_index("T1", "k1", 9, 0, WALL + 999).records) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x" * 21,
        entry(b"", b""),
        entry(b"b", b"a\x01\0"),
        entry(b"b", b"a\x01\xff"),
        entry(b"b", b"a\x01\xed\xa0\x80"),
        entry(b"b", b"a\x01" + b"x" * 32_763),
        entry(b"b" * 4096, b""),
        entry(b"b", b"") + b"x",
        entry(b"b", b"")[:-1],
        b"\xff" * 30,
    ],
)
def test_what_is_left_to_python_changes_nothing(body: bytes) -> None:
    _disk, store = opened()
    store.append([Draft("T1", 3, b"x", b"", born_host=HOST)], WALL)
    end = store.pointers.appended
    assert store.append_packed(request(body), WALL) is None
    assert (store.pointers.appended, store.queue_bounds("T1", 3)) == (end, (0, 1))
    assert store.verify().problems == []


def test_an_unknown_queue_is_left_to_python() -> None:
    _disk, store = opened()
    assert store.append_packed(request(entry(b"b", b"")), WALL) is None


def test_wide_hosts_and_topics() -> None:
    wide = bytes(15) + b"\1" + HOST[4:]
    disk = SimDisk()
    store = Store.open(disk, SMALL, wide, WALL)
    topic = "%RETRY%" + "g" * 200
    store.append([Draft(topic, 3, b"x", b"", born_host=HOST)], WALL)
    one = request(entry(b"body", b"a\x01b"), topic)
    one.born_host, one.sys_flag = wide, 0x1
    placed = store.append_packed(one, WALL)
    assert isinstance(placed, Placed)
    (message,) = decode_all(bytes(store.message_at(placed.offset) or b""))
    assert (message.sys_flag, message.topic, message.body) == (0x31, topic, b"body")
    assert (message.born_host[0], message.store_host[0]) == ("::1", "::1")
    assert len(placed.ids) == 56
    assert store.verify().problems == []


@pytest.mark.parametrize("seed", range(200))
def test_it_takes_nothing_that_python_refuses(seed: int) -> None:
    body = a_body(Random(seed))
    _disk, store = opened(commit_log_file_bytes=1 << 20)
    store.append([Draft("T1", 3, b"x", b"", born_host=HOST)], WALL)
    placed = store.append_packed(request(body), WALL)
    if isinstance(placed, Placed):
        try:
            entries = batch.decode(body)
        except HeaderError:
            pytest.fail("the native code took a batch that Python refuses")
        found = store.read_queue("T1", 3, 1, 1000, 1 << 20)
        assert [e.body for e in entries] == [m.body for m in decode_all(b"".join(found.chunks))]
        assert store.verify().problems == []


@pytest.mark.parametrize(("size", "taken"), [(32_761, True), (32_762, False)])
def test_properties_with_their_tail_fit_an_i16(size: int, taken: bool) -> None:
    _disk, store = opened(commit_log_file_bytes=1 << 20)
    store.append([Draft("T1", 3, b"x", b"", born_host=HOST)], WALL)
    placed = store.append_packed(request(entry(b"b", b"a\x01" + b"x" * size)), WALL)
    assert (placed is not None) == taken
    assert store.verify().problems == []


def test_it_takes_the_utf_8_that_python_takes() -> None:
    _disk, store = opened(commit_log_file_bytes=1 << 20)
    store.append([Draft("T1", 3, b"x", b"", born_host=HOST)], WALL)
    seconds = (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    for first, second, more in product(range(0x80, 0x100), seconds, range(4)):
        text = bytes((first, second)) + b"\x80" * more
        for whole in (text, text[:1], text + b"x"):
            placed = store.append_packed(request(entry(b"b", b"a\x01" + whole)), WALL)
            assert (placed is not None) == (whole.decode("utf-8", "ignore").encode() == whole), (
                whole
            )
