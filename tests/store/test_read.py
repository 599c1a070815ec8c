"""Reading by queue offset: statuses, bounds, filters."""

import dataclasses
import struct

import pytest
from sim.kernel.disk import SimDisk, SimFile
from tests.store.replicas import opened
from tests.store.world import HOST, SMALL

from epochmq.model.record import HEAD, MAGIC_V1, decode
from epochmq.store import log_memory
from epochmq.store.draft import PRE_BLANK_SIZE, UNIT, Draft
from epochmq.store.read import SCAN_UNITS_MIN, GetStatus, ReadResult
from epochmq.store.store import Store

WALL = 1_700_000_000_000


def filled(count: int = 30, queues: int = 1) -> Store:
    store = Store.open(SimDisk(), SMALL, HOST, WALL)
    for number in range(count):
        draft = Draft("T", number % queues, b"%04d" % number * 50, b"", number % 3, born_host=HOST)
        store.append([draft], WALL)
    return store


def numbers(result: ReadResult) -> list[int]:
    found = []
    for chunk in result.chunks:
        while len(chunk):
            message = decode(chunk)
            found.append(int(message.body[:4]))
            chunk = chunk[message.size :]
    return found


@pytest.mark.parametrize(
    ("queue_id", "offset", "status", "next_offset"),
    [
        (9, 0, GetStatus.NO_MATCHED_LOGIC_QUEUE, 0),
        (0, -1, GetStatus.OFFSET_TOO_SMALL, 0),
        (0, 30, GetStatus.OFFSET_OVERFLOW_ONE, 30),
        (0, 31, GetStatus.OFFSET_OVERFLOW_BADLY, 30),
        (5, 0, GetStatus.NO_MESSAGE_IN_QUEUE, 0),
    ],
)
def test_misses(queue_id: int, offset: int, status: GetStatus, next_offset: int) -> None:
    store = filled()
    store._queues.get("T", 5)
    result = store.read_queue("T", queue_id, offset, 9, 9)
    assert (result.status, result.next_offset, result.count) == (status, next_offset, 0)


@pytest.mark.parametrize("confirmed", [0, 2])
def test_an_offset_that_only_the_last_master_has_shown_is_waited_for(confirmed: int) -> None:
    """After an election the new master has messages that it has not confirmed yet."""
    store = opened()
    drafts = [Draft("T", 0, b"%04d" % number, b"", 0, born_host=HOST) for number in range(6)]
    placed = store.append(drafts, WALL)
    store.limit_confirm(placed[confirmed].offset)
    store.tick(0, WALL)
    for offset in range(confirmed + 1, 7):
        result = store.read_queue("T", 0, offset, 9, 9)
        found = result.status, result.next_offset, result.max_offset
        assert found == (GetStatus.OFFSET_OVERFLOW_ONE, offset, confirmed)
    result = store.read_queue("T", 0, 7, 9, 9)
    if confirmed:
        assert (result.status, result.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, confirmed)


def test_neighbours_share_a_view() -> None:
    store = filled(8)
    result = store.read_queue("T", 0, 2, 4, 1 << 20)
    assert (result.count, len(result.chunks), result.next_offset) == (4, 1, 6)
    assert (numbers(result), result.size) == ([2, 3, 4, 5], len(result.chunks[0]))
    assert (result.min_offset, result.max_offset) == (0, 8)
    apart = filled(8, queues=2).read_queue("T", 1, 0, 9, 1 << 20)
    assert (numbers(apart), len(apart.chunks)) == ([1, 3, 5, 7], 1)  # copied into one


def test_bytes_are_bounded_but_one_comes_always() -> None:
    store = filled(8)
    assert store.read_queue("T", 0, 0, 9, 1).count == 1
    assert store.read_queue("T", 0, 0, 9, 292 * 3).count == 3
    assert store.read_queue("T", 0, 0, 9, 292 * 3, accept=lambda _c: True).count == 3
    assert store.read_queue("T", 0, 0, 9, 1, accept=lambda _c: True).count == 1


def test_filters() -> None:
    store = filled()
    odd = store.read_queue("T", 0, 0, 4, 1 << 20, accept=lambda code: code == 1)
    assert (numbers(odd), odd.next_offset) == ([1, 4, 7, 10], 11)
    some = store.read_queue("T", 0, 5, 99, 1 << 20, verify=lambda r: decode(r).body[3:4] == b"7")
    assert (numbers(some), some.next_offset) == ([7, 17, 27], 30)
    none = store.read_queue("T", 0, 5, 99, 1 << 20, accept=lambda _code: False)
    assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 30)


def test_a_filtered_read_gives_up_after_a_while() -> None:
    store = filled(SCAN_UNITS_MIN + 100)
    none = store.read_queue("T", 0, 0, 1, 1, accept=lambda _code: False)
    assert none.next_offset == SCAN_UNITS_MIN


@pytest.mark.parametrize("every", [1, 2, 7])
def test_a_read_ends_when_judging_has_cost_enough_and_goes_on_there(every: int) -> None:
    """No record is left out, and each read looks at one at least."""
    store = filled()
    left = every

    def verify(raw: memoryview) -> bool | None:
        nonlocal left
        if not left:
            left = every
            return None
        left -= 1
        return decode(raw).body[3:4] == b"7"

    found, offset, reads = [], 0, 0
    while offset < 30:
        result = store.read_queue("T", 0, offset, 99, 1 << 20, verify=verify)
        assert result.next_offset > offset
        found += numbers(result) if result.count else []
        offset, reads = result.next_offset, reads + 1
    assert found == [7, 17, 27]
    assert reads >= 30 // (every + 1)


def test_records_by_position() -> None:
    store = filled(20)
    unit = store._queues.get("T", 0).unit(3)
    assert unit is not None
    record = store.message_at(unit[0])
    assert record is not None
    assert int(decode(record).body[:4]) == 3
    assert store.message_at(unit[0], unit[1]) == record
    assert store.message_at(unit[0], unit[1] + 1) is None
    for wrong in (-1, unit[0] + 1, store.pointers.appended, 1 << 60, 4090):
        assert store.message_at(wrong) is None


def test_a_record_inside_a_message_is_none() -> None:
    """A body may look like a record; one that reaches into the next message is not handed out."""
    store = filled(1)
    inside = store.pointers.appended + HEAD.size
    fake = struct.pack(">IIIiiqqi", 300, MAGIC_V1, 0, 0, 0, 0, inside, 0).ljust(200, b"\0")
    for body in (fake, b"the next message" * 20):
        store.append([Draft("T", 0, body, b"", born_host=HOST)], WALL)
    assert store.message_at(inside) is None


def test_holes_in_a_queue_are_passed_over() -> None:
    store = filled(3)
    queue = store._queues.get("T", 0)
    queue.tail[20:40] = UNIT.pack(584, PRE_BLANK_SIZE, 0)
    assert numbers(store.read_queue("T", 0, 0, 9, 1000)) == [0, 2]
    assert store.read_queue("T", 0, 1, 1, 9).status is GetStatus.OFFSET_FOUND_NULL
    assert store.read_queue("T", 0, 1, 1, 9).next_offset == 2
    assert store.store_time("T", 0, 1) == -1


FAR = 1 << 40
"""More bytes than the log has: all that this run wrote counts as in memory."""


def write(store: Store, numbers: range, tag: int = 0) -> None:
    for number in numbers:
        store.append([Draft("T", 0, b"%04d" % number * 50, b"", tag, born_host=HOST)], WALL)


def reopened(
    count: int = 30, window_bytes: int = FAR, *, batches: bool = False
) -> tuple[Store, SimDisk]:
    """Return a store with messages of an earlier run, none of them in memory, and its disk."""
    disk = SimDisk()
    options = dataclasses.replace(SMALL, memory_window_bytes=window_bytes)
    store = Store.open(disk, options, HOST, WALL, lambda _: batches)
    write(store, range(count))
    store.close(WALL)
    store = Store.open(disk, options, HOST, WALL, lambda _: batches)
    evict(store, disk)
    return store, disk


def evict(store: Store, disk: SimDisk) -> None:
    disk.evicted = {segment.path for segment in store._log.segments}


def from_memory(store: Store, offset: int, count: int, max_bytes: int = 1 << 20) -> ReadResult:
    return store.read_queue("T", 0, offset, count, max_bytes, from_memory=True)


def bring_in(result: ReadResult) -> None:
    assert result.status is GetStatus.COLD
    assert result.prefetch is not None
    result.prefetch()


@pytest.mark.parametrize("batches", [False, True])
def test_a_read_that_would_wait_for_the_device_says_so(batches: bool) -> None:
    store, _ = reopened(batches=batches)
    result = from_memory(store, 3, 4)
    assert (result.status, result.next_offset, result.count) == (GetStatus.COLD, 3, 0)
    assert (result.min_offset, result.max_offset) == (0, 30)
    assert from_memory(store, 3, 4).status is GetStatus.COLD
    bring_in(result)
    assert numbers(from_memory(store, 3, 4)) == [3, 4, 5, 6]


@pytest.mark.parametrize("batches", [False, True])
def test_without_a_limit_a_read_waits_for_the_device(batches: bool) -> None:
    store, _ = reopened(batches=batches)
    assert numbers(store.read_queue("T", 0, 3, 4, 1 << 20)) == [3, 4, 5, 6]


@pytest.mark.parametrize("batches", [False, True])
def test_what_this_run_wrote_is_in_memory_without_a_look(batches: bool) -> None:
    store, disk = reopened(3, batches=batches)
    write(store, range(3, 6))
    evict(store, disk)
    assert numbers(from_memory(store, 3, 9)) == [3, 4, 5]
    assert from_memory(store, 2, 9).status is GetStatus.COLD


@pytest.mark.parametrize("batches", [False, True])
def test_beyond_the_window_it_may_have_left_the_memory(batches: bool) -> None:
    store, disk = reopened(3, 1, batches=batches)
    write(store, range(3, 6))
    evict(store, disk)
    bring_in(from_memory(store, 3, 9))
    assert numbers(from_memory(store, 3, 9)) == [3, 4, 5]


def test_only_the_records_of_the_read_count() -> None:
    store, disk = reopened(60)
    first, *_, last = store._log.segments
    assert first is not last
    disk.evicted = {last.path}
    assert numbers(from_memory(store, 0, 4)) == [0, 1, 2, 3]
    assert from_memory(store, 0, 99, 1).count == 1
    assert from_memory(store, 0, 99).status is GetStatus.COLD


def test_a_filter_of_tags_reads_what_it_wants_of_this_run_and_checks_all_of_earlier_ones() -> None:
    store, disk = reopened(3, 1)
    write(store, range(3, 6), tag=7)
    write(store, range(6, 60), tag=8)
    last = store._log.segments[-1]
    disk.evicted = {last.path}

    def read(offset: int, tag: int) -> ReadResult:
        return store.read_queue("T", 0, offset, 3, 1 << 20, lambda t: t == tag, from_memory=True)

    assert numbers(read(3, 7)) == [3, 4, 5]
    assert read(0, 7).status is GetStatus.COLD
    bring_in(read(57, 8))
    assert numbers(read(57, 8)) == [57, 58, 59]
    assert numbers(read(0, 7)) == [3, 4, 5]
    disk.evicted = {last.path}
    verify = lambda _record: True  # noqa: E731
    result = store.read_queue("T", 0, 57, 3, 1 << 20, verify=verify, from_memory=True)
    assert result.status is GetStatus.COLD


@pytest.mark.parametrize(("queue_id", "offset"), [(9, 0), (0, -1), (0, 30), (0, 31)])
def test_of_nothing_there_is_nothing_to_bring_into_memory(queue_id: int, offset: int) -> None:
    store, _ = reopened()
    assert store.missing_messages("T", queue_id, offset, 9, 9) is None
    result = store.read_queue("T", queue_id, offset, 9, 9, from_memory=True)
    assert result.status is not GetStatus.COLD
    assert result.prefetch is None


def test_messages_can_be_brought_in_before_they_are_read() -> None:
    store, _ = reopened()
    missing = store.missing_messages("T", 0, 3, 4, 1 << 20)
    assert missing is not None
    missing()
    assert store.missing_messages("T", 0, 3, 4, 1 << 20) is None
    assert numbers(from_memory(store, 3, 4)) == [3, 4, 5, 6]


def test_what_is_in_memory_costs_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_memory, "COLD_GAP_BYTES", -1)  # else one part would be one question too
    store, disk = reopened(9)
    disk.evicted = set()
    asked: list[tuple[int, int]] = []

    def is_in_memory(_file: SimFile, offset: int, size: int) -> bool:
        asked.append((offset, size))
        return True

    monkeypatch.setattr(SimFile, "is_in_memory", is_in_memory)
    assert numbers(from_memory(store, 2, 5)) == [2, 3, 4, 5, 6]
    ((start, size),) = asked
    first, last = store.units("T", 0, 2, 1)[0], store.units("T", 0, 6, 1)[0]
    assert start <= first[0]
    assert start + size >= last[0] + last[1]
