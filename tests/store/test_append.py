"""The append's bytes and its refusals."""

from dataclasses import replace

import msgspec
import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.model.record import MAGIC_BLANK, decode
from epochmq.model.sys_flag import TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.queue_table import SCHEDULE_TOPIC
from epochmq.store.store import Store

WALL = 1_663_545_600_001
LOG = "commitlog/" + "0" * 20


def opened(host: bytes = HOST, **changes: object) -> tuple[SimDisk, Store]:
    disk = SimDisk()
    return disk, Store.open(disk, replace(SMALL, **changes), host, WALL)  # type: ignore[arg-type]


def test_golden_record_of_the_java_classes() -> None:
    disk, store = opened()
    store.append([Draft("T1", 3, b"x" * (258 - 93), b"", born_host=HOST)], WALL)
    store._queues.get("T1", 3).place(0, 42)
    draft = Draft(
        "T1",
        3,
        b"hello",
        b"KEYS\x01k1",
        0,
        ("k1",),
        flag=7,
        born_wall_ms=1_663_545_600_000,
        born_host=bytes((10, 0, 0, 2)) + (40000).to_bytes(4, "big"),
        reconsume_times=1,
    )
    placed = store.append([draft], WALL)[0]
    assert placed == Appended(258, 105, 42, WALL)
    assert (disk.read_file(LOG) or b"")[258:363].hex() == (
        "00000069daa320a73610a6860000000300000007000000000000002a0000000000000102000000000000018353"
        "0b68000a00000200009c4000000183530b68017f00000100002a9f000000010000000000000000000000056865"
        "6c6c6f02543100074b455953016b31"
    )


def test_units_of_the_queue() -> None:
    disk, store = opened()
    store.append([Draft("T", 0, b"a", b"", -5, born_host=HOST) for _ in range(2)], WALL)
    store.close(WALL)
    units = disk.read_file("consumequeue/T/0/" + "0" * 20) or b""
    assert len(units) == 200
    assert units[:40].hex() == (
        "0000000000000000" "0000005d" "fffffffffffffffb"
        "000000000000005d" "0000005d" "fffffffffffffffb"
    )  # fmt: skip
    assert units[40:] == bytes(160)


def test_the_end_of_a_file_is_filled_with_a_blank() -> None:
    disk, store = opened()
    body = b"b" * (4096 - 92 - 8)
    assert isinstance(store.append([Draft("T", 0, body, b"", born_host=HOST)], WALL)[0], Appended)
    store.append([Draft("T", 0, b"next", b"", born_host=HOST)], WALL)
    data = disk.read_file(LOG) or b""
    assert data[-8:] == (8).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
    assert disk.list("commitlog") == ["0" * 20, "4096".zfill(20)]
    too_large = Draft("T", 0, body + b"b", b"", born_host=HOST)
    assert store.append([too_large], WALL) == [PutStatus.MESSAGE_ILLEGAL]


@pytest.mark.parametrize("store_v6", [False, True])
@pytest.mark.parametrize("born_v6", [False, True])
def test_hosts_of_both_widths(store_v6: bool, born_v6: bool) -> None:
    wide = bytes(15) + b"\1" + HOST[4:]
    _disk, store = opened(wide if store_v6 else HOST)
    draft = Draft("T", 0, b"body", b"a\x01b", sys_flag=0x31, born_host=wide if born_v6 else HOST)
    placed = store.append([draft, draft], WALL)
    record = store.message_at(0)
    assert record is not None
    message = decode(record)
    assert message.sys_flag == 0x1 | 0x10 * born_v6 | 0x20 * store_v6
    assert (message.size, message.body, message.properties) == (len(record), b"body", {"a": "b"})
    assert len(placed) == 2
    assert store.verify().problems == []
    batch = store.append_batch([draft], WALL)
    assert isinstance(batch, list)
    assert batch[0].size == message.size


def test_long_topics_are_v2_records() -> None:
    _disk, store = opened()
    topic = "%RETRY%" + "g" * 200
    store.append([Draft(topic, 0, b"b", b"", born_host=HOST)], WALL)
    record = store.message_at(0)
    assert record is not None
    assert (decode(record).topic, record[4:8].hex()) == (topic, "daa320ab")
    assert store.verify().problems == []
    _disk, narrow = opened(wide_topics=False)
    draft = Draft(topic, 0, b"b", b"", born_host=HOST)
    assert narrow.append([draft], WALL) == [PutStatus.MESSAGE_ILLEGAL]


GOOD = Draft("T", 0, b"b", b"", born_host=HOST)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"topic": ""}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "../x"}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "a b"}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "ü"}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "x" * 256}, PutStatus.MESSAGE_ILLEGAL),
        ({"queue_id": -1}, PutStatus.MESSAGE_ILLEGAL),
        ({"body": b"x" * 2001}, PutStatus.MESSAGE_ILLEGAL),
        ({"properties": b"p" * 32768}, PutStatus.PROPERTIES_SIZE_EXCEEDED),
        ({"properties": b"p\x01\0\x02"}, PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_refusals_leave_the_others_alone(change: dict[str, object], status: PutStatus) -> None:
    _disk, store = opened(message_bytes_max=2000)
    bad = msgspec.structs.replace(GOOD, **change)
    results = store.append([GOOD, bad, GOOD], WALL)
    assert results == [Appended(0, 93, 0, WALL), status, Appended(93, 93, 1, WALL)]
    assert store.append_batch([GOOD, bad], WALL) is status
    assert store.queue_bounds("T", 0) == (0, 2)


def test_a_record_above_its_limit() -> None:
    _disk, store = opened(message_bytes_max=1 << 20, commit_log_file_bytes=1 << 20)
    large = msgspec.structs.replace(GOOD, body=b"x" * (1 << 20))
    assert store.append([large], WALL) == [PutStatus.MESSAGE_ILLEGAL]
    fits = msgspec.structs.replace(GOOD, body=b"x" * 100_000)
    assert isinstance(store.append([fits], WALL)[0], Appended)


def test_prepared_and_rolled_back_get_no_unit() -> None:
    _disk, store = opened()
    kinds = (TX_PREPARED, TX_COMMIT, TX_ROLLBACK, 0)
    drafts = [msgspec.structs.replace(GOOD, sys_flag=k, keys=("k",), properties=b"KEYS\x01k")
              for k in kinds]  # fmt: skip
    results = store.append(drafts, WALL)
    assert [r.queue_offset for r in results if isinstance(r, Appended)] == [0, 0, 0, 1]
    assert store.queue_bounds("T", 0) == (0, 2)
    assert len(store.query_index("T", "k", 10, 0, 1 << 50).records) == 3  # not the rolled back one
    assert store.verify().problems == []


def test_units_of_the_delay_topic_say_when() -> None:
    _disk, store = opened(delays_ms=(1000, 5000))
    for queue_id, level in ((0, 1), (1, 2)):
        draft = Draft(SCHEDULE_TOPIC, queue_id, b"b", b"DELAY\x01%d\x02" % level, 7, born_host=HOST)
        store.append([draft], WALL)
    seen: list[int] = []
    for queue_id in range(2):
        store.read_queue(SCHEDULE_TOPIC, queue_id, 0, 1, 1, lambda code: seen.append(code) or True)
    assert seen == [WALL + 1000, WALL + 5000]
    assert store.verify().problems == []


def test_a_run_over_several_files_keeps_its_order() -> None:
    _disk, store = opened()
    run = [msgspec.structs.replace(GOOD, body=b"%d" % n * 500) for n in range(10)] * 5
    offsets = [r.queue_offset for r in store.append(run, WALL) if isinstance(r, Appended)]
    assert offsets == list(range(50))
    assert store.verify().problems == []
