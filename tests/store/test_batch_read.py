"""Reading a topic whose records may hold many messages; retention, times, restarts, deletion."""

from dataclasses import replace
from random import Random

import msgspec
import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, draft, has_batch_queues, inner_batch

from epochmq.base.errors import StoreDamaged
from epochmq.model.record import decode, decode_all
from epochmq.model.sys_flag import INNER_BATCH
from epochmq.model.tags import tags_code
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.read import GetStatus
from epochmq.store.store import Store
from epochmq.store.verify import verify_directory

WALL = 1000
TOPIC = "Batch"
BIG = 1 << 20


def opened(disk: SimDisk | None = None) -> Store:
    return Store.open(disk or SimDisk(), SMALL, HOST, WALL, has_batch_queues)


def one(count: int, number: int = 0) -> Draft:
    """A record of `count` messages; a plain one for 0."""
    made = msgspec.structs.replace(
        draft(number, Random(number), "T"),
        topic=TOPIC,
        queue_id=0,
        properties=b"KEYS\x01k%d\x02TAGS\x01n%d\x02p\x01%s" % (number, count, b"x" * (number % 9)),
        tags_code=tags_code(f"n{count}"),
    )
    return inner_batch(made, count) if count else made


def filled(disk: SimDisk | None = None) -> Store:
    """Queue offsets 0-2, 3, 4-7, 8-9; stored at 1000, 1010, 1020, 1030."""
    store = opened(disk)
    for at, count in enumerate((3, 0, 4, 2)):
        (placed,) = store.append([one(count, at)], WALL + 10 * at)
        assert isinstance(placed, Appended)
    return store


def test_offsets_advance_by_the_messages_inside() -> None:
    store = filled()
    assert store.queue_bounds(TOPIC, 0) == (0, 10)
    found = store.read_queue(TOPIC, 0, 0, 99, BIG)
    records = decode_all(b"".join(found.chunks))
    assert [message.queue_offset for message in records] == [0, 3, 4, 8]
    assert [message.properties.get("INNER_BASE") for message in records] == ["0", None, "4", "8"]
    assert (found.count, found.next_offset, found.max_offset) == (10, 10, 10)
    assert store.verify().problems == []


def test_a_read_within_a_record_gets_all_of_it() -> None:
    store = filled()
    found = store.read_queue(TOPIC, 0, 5, 99, BIG)
    assert [decode(chunk).queue_offset for chunk in found.chunks] == [4, 8]
    assert store.read_queue(TOPIC, 0, 10, 9, BIG).status is GetStatus.OFFSET_OVERFLOW_ONE


@pytest.mark.parametrize(
    ("count", "size", "after"), [(1, BIG, 3), (4, BIG, 4), (7, BIG, 4), (8, BIG, 8), (99, 1, 3)]
)
def test_limits_count_messages_and_let_one_record_through(
    count: int, size: int, after: int
) -> None:
    assert filled().read_queue(TOPIC, 0, 0, count, size).next_offset == after


def test_filters_see_the_record() -> None:
    store = filled()
    found = store.read_queue(TOPIC, 0, 0, 99, BIG, tags_code("n4").__eq__)
    assert (found.count, found.next_offset) == (4, 10)
    none = store.read_queue(TOPIC, 0, 0, 99, BIG, None, lambda _record: False)
    assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)


def test_times() -> None:
    store = filled()
    assert [store.offset_by_time(TOPIC, 0, at) for at in (0, 1005, 1020, 1031)] == [0, 3, 4, 10]
    assert store.offset_by_time(TOPIC, 0, 1025, upper=True) == 7
    assert [store.store_time(TOPIC, 0, at) for at in (2, 3, 7, 9)] == [1000, 1010, 1020, 1030]


@pytest.mark.parametrize("clean", [True, False])
def test_restarts(clean: bool) -> None:
    disk = SimDisk()
    store = filled(disk)
    if clean:
        store.close(WALL)
        found = verify_directory(disk, SMALL, types=has_batch_queues)
        assert (found.problems, found.units) == ([], 4)
    else:
        disk = disk.kill()
    again = opened(disk)
    assert again.queue_bounds(TOPIC, 0) == (0, 10)
    again.append([one(5, 9)], WALL)
    assert again.queue_bounds(TOPIC, 0) == (0, 15)
    assert again.verify().problems == []


def test_rebuilt_from_the_log_alone() -> None:
    disk = SimDisk()
    filled(disk).close(WALL)
    disk.remove("batchconsumequeue")
    store = opened(disk)
    assert store.queue_bounds(TOPIC, 0) == (0, 10)
    assert store.verify().problems == []


def test_damage_is_found() -> None:
    disk = SimDisk()
    filled(disk).close(WALL)
    disk.open(f"batchconsumequeue/{TOPIC}/0/" + "0" * 20).write(46 + 37, b"\x02")
    found = verify_directory(disk, SMALL, types=has_batch_queues)
    assert found.problems == [f"{TOPIC}/0: unit 1 differs from its record"]


def test_old_files_go_with_the_log() -> None:
    disk = SimDisk()
    store = opened(disk)
    for number in range(80):
        store.append([one(3, number)], WALL)
    store.sync()
    disk.wall_ms = 1 << 41
    store.retention.by_hand = True
    store._housekeeping._retention.delete_expired(1 << 41)
    while store.retention.clean_queues(1):
        pass
    low, high = store.queue_bounds(TOPIC, 0)
    assert 0 < low < high == 240
    assert low % 3 == 0
    assert disk.list(f"batchconsumequeue/{TOPIC}/0")[0] != "0" * 20
    found = store.read_queue(TOPIC, 0, low, 999, BIG)
    assert (decode(found.chunks[0]).queue_offset, found.next_offset) == (low, 240)
    assert store.verify().problems == []
    store.close(WALL)
    assert opened(disk).queue_bounds(TOPIC, 0) == (low, high)


def test_deleted_and_created_again() -> None:
    disk = SimDisk()
    store = filled(disk)
    store.tick(1, WALL)
    store.delete_topic(TOPIC)
    assert (store.topics(), disk.list("batchconsumequeue")) == ([], [])
    store.append([one(2)], WALL)
    assert store.queue_bounds(TOPIC, 0) == (0, 2)
    assert opened(disk.kill()).queue_bounds(TOPIC, 0) == (0, 2)


def test_refused_records_leave_no_offset() -> None:
    store = filled()
    nul = msgspec.structs.replace(one(2), properties=b"\0")
    wide = msgspec.structs.replace(one(2), properties=b"p" * 32_766)
    bad = msgspec.structs.replace(one(2), queue_id=-1)
    assert store.append([nul, wide, bad], WALL) == [
        PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED, PutStatus.MESSAGE_ILLEGAL,
    ]  # fmt: skip
    assert store.queue_bounds(TOPIC, 0) == (0, 10)


def test_order_across_kinds_of_topics() -> None:
    """A run of both kinds is one write, in order; plain topics do not notice."""
    store = opened()
    plain = [draft(number, Random(number), "T") for number in range(8)]
    run = [one(2, 1), plain[0], one(3, 2), plain[1], plain[2], one(0, 3)]
    placed = [result for result in store.append(run, WALL) if isinstance(result, Appended)]
    assert [result.offset for result in placed] == sorted(result.offset for result in placed)
    assert [placed[at].queue_offset for at in (0, 2, 5)] == [0, 2, 5]
    assert store.verify().problems == []


def test_a_changed_type_is_refused_at_the_start() -> None:
    disk = SimDisk()
    filled(disk).close(WALL)
    with pytest.raises(StoreDamaged, match=r"should be SimpleCQ.*batchconsumequeue/Batch has"):
        Store.open(disk, SMALL, HOST, WALL, lambda _topic: False)
    assert opened(disk).queue_bounds(TOPIC, 0) == (0, 10)


def test_a_plain_topic_made_a_batch_one_is_refused_as_well() -> None:
    disk = SimDisk()
    store = opened(disk)
    store.append([draft(1, Random(1), "T")], WALL)
    store.close(WALL)
    with pytest.raises(StoreDamaged, match=r"should be BatchCQ.*consumequeue/T has data"):
        Store.open(disk, SMALL, HOST, WALL, lambda _topic: True)


def test_ipv6_hosts() -> None:
    store = Store.open(SimDisk(), replace(SMALL), bytes(20), WALL, has_batch_queues)
    store.append([one(2)], WALL)
    (record,) = store.read_queue(TOPIC, 0, 0, 9, BIG).chunks
    assert decode(record).sys_flag & INNER_BATCH
    assert store.verify().problems == []


def test_a_read_ends_when_judging_has_cost_enough_and_goes_on_there() -> None:
    """No record is left out, and each read looks at one at least."""
    store, asked = filled(), 0

    def verify(raw: memoryview) -> bool | None:
        nonlocal asked
        asked += 1
        return None if asked % 2 else decode(raw).queue_offset >= 4

    found, offset = [], 0
    while offset < 10:
        result = store.read_queue(TOPIC, 0, offset, 99, BIG, verify=verify)
        assert result.next_offset > offset
        found += [decode(chunk).queue_offset for chunk in result.chunks]
        offset = result.next_offset
    assert found == [4, 8]
