"""What of the log is in memory: which parts are examined, and which are read."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.store import log_memory, read
from epochmq.store.draft import PRE_BLANK_SIZE, Appended, Draft
from epochmq.store.key_query import SteppedSearch
from epochmq.store.log_memory import LogMemory, NotInMemory
from epochmq.store.store import Store

WALL = 1_700_000_000_000
SIZE = 300


class World:
    """A store whose questions and reads are recorded as (file, first byte, end)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, earlier_run: bool) -> None:
        self.disk = SimDisk()
        self.store = Store.open(self.disk, SMALL, HOST, WALL)
        drafts = [Draft("T", 0, b"x" * SIZE, b"", 0, born_host=HOST) for _ in range(30)]
        placed = self.store.append(drafts, WALL)
        self.places = [(one.offset, one.size) for one in placed if isinstance(one, Appended)]
        if earlier_run:
            self.store.close(WALL)
            self.store = Store.open(self.disk, SMALL, HOST, WALL)
        self.files, self.check = self.store._files, self.store._check
        self.asked: list[tuple[str, int, int]] = []
        self.read: list[tuple[str, int, int]] = []
        self.missing = True
        file = type(self.disk.open(self.store._log.segments[0].path))
        world = self

        def is_in_memory(one: Any, offset: int, size: int) -> bool:
            world.asked.append((one._path, offset, offset + size))
            return not world.missing

        def prefetcher(one: Any, parts: Sequence[tuple[int, int]]) -> Any:
            path = one._path
            return lambda: world.read.extend((path, *part) for part in parts)

        monkeypatch.setattr(file, "is_in_memory", is_in_memory)
        monkeypatch.setattr(file, "prefetcher", prefetcher)

    def bring_in(self, *numbers: int, **more: int) -> None:
        prefetch = self.store.missing_records([self.places[n] for n in numbers], **more)
        assert prefetch is not None
        prefetch()

    def part(self, first: int, last: int) -> tuple[str, int, int]:
        """The part of a file from record `first` to the end of record `last`."""
        start, (at, size) = self.places[first][0], self.places[last]
        segment = self.store._log.find(start)
        assert segment is not None
        return segment.path, start - segment.start, at + size - segment.start


def test_adjacent_records_are_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, earlier_run=False)
    world.bring_in(0, 1, 2, ahead=0)
    assert world.asked == world.read == [world.part(0, 2)]


def test_what_follows_is_read_too_up_to_the_end_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, earlier_run=False)
    path, start, stop = world.part(0, 0)
    world.bring_in(0, ahead=100)
    assert world.read == [(path, start, stop + 100)]
    world.read.clear()
    world.bring_in(0)
    assert world.read == [(path, start, SMALL.commit_log_file_bytes)]


def test_records_of_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, earlier_run=False)
    world.bring_in(0, 29, ahead=0)
    assert world.read == [world.part(0, 0), world.part(29, 29)]
    assert world.read[0][0] != world.read[1][0]


def test_far_records_are_parts_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_memory, "COLD_GAP_BYTES", 0)
    world = World(monkeypatch, earlier_run=False)
    world.bring_in(0, 2, 3, 1, ahead=0)
    assert world.read == [world.part(0, 0), world.part(2, 3), world.part(1, 1)]


def test_records_before_the_last_part_begin_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, earlier_run=False)
    world.bring_in(3, 1, 2, ahead=0)  # deliveries of timed messages go back and forth in the log
    assert world.read == [world.part(3, 3), world.part(1, 2)]


def test_only_so_many_parts_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_memory, "COLD_GAP_BYTES", 0)
    monkeypatch.setattr(log_memory, "COLD_PARTS_MAX", 2)
    world = World(monkeypatch, earlier_run=False)
    world.bring_in(0, 2, 4, 6, ahead=0)
    assert world.asked == [world.part(0, 0), world.part(2, 2)]


def test_records_beyond_the_room_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, earlier_run=False)
    world.bring_in(0, 1, 2, 3, room=world.places[0][1], ahead=0)
    assert world.asked == [world.part(0, 1)]


def test_an_earlier_run_is_checked_in_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_memory, "BLOCK_BYTES", 1024)
    world = World(monkeypatch, earlier_run=True)
    path, start, stop = world.part(4, 4)
    assert start % 1024
    assert stop % 1024
    world.bring_in(4, ahead=0)
    assert world.read == [(path, start - start % 1024, stop + -stop % 1024)]


def test_what_is_in_memory_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, earlier_run=True)
    world.missing = False
    assert world.store.missing_records(world.places) is None
    assert world.asked


@pytest.mark.parametrize("place", [(1 << 40, 100), (-5, 100), (0, PRE_BLANK_SIZE), (0, -1)])
def test_a_place_without_a_record(monkeypatch: pytest.MonkeyPatch, place: tuple[int, int]) -> None:
    world = World(monkeypatch, earlier_run=True)
    assert world.store.missing_records([place]) is None
    assert not world.asked


def test_one_question_for_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, earlier_run=False)
    world.missing = False
    memory = LogMemory(world.files, world.store.pointers, world.check)
    (start, _), (last, size) = world.places[1], world.places[4]
    assert memory.is_here(start, last + size - start)
    assert world.asked == [world.part(1, 4)]
    world.missing = True
    assert not memory.is_here(start, last + size - start)


@pytest.mark.parametrize("span", [(0, 0), (0, -1), (-5, 10), (1 << 40, 10), (100, 1 << 13)])
def test_a_span_that_is_not_in_one_file_is_not_said_to_be_in_memory(
    monkeypatch: pytest.MonkeyPatch, span: tuple[int, int]
) -> None:
    world = World(monkeypatch, earlier_run=False)
    world.missing = False
    assert not LogMemory(world.files, world.store.pointers, world.check).is_here(*span)
    assert not world.asked


def test_a_long_span_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_memory, "SPAN_BYTES_MAX", 100)
    world = World(monkeypatch, earlier_run=False)
    world.missing = False
    memory = LogMemory(world.files, world.store.pointers, world.check)
    assert memory.is_here(0, 100)
    assert not memory.is_here(0, 101)


# Reads that must not wait for the device --------------------------------------------------------


def cold_store(*, batches: bool = False) -> tuple[Store, SimDisk]:
    """Return a store of an earlier run, with several log files; none is in memory."""
    disk = SimDisk()
    store = Store.open(disk, SMALL, HOST, WALL, lambda _: batches)
    for number in range(30):
        store.append([Draft("T", 0, b"x" * SIZE, b"", 0, born_host=HOST)], WALL + number)
    store.close(WALL + 30)
    store = Store.open(disk, SMALL, HOST, WALL + 30, lambda _: batches)
    assert len(store._log.segments) > 2
    disk.evicted = {segment.path for segment in store._log.segments}
    return store, disk


READS: dict[str, Callable[[Store], Any]] = {
    "store_time": lambda store: store.store_time("T", 0, 17),
    "earliest_time": lambda store: store.earliest_time(),
    "offset_by_time": lambda store: store.offset_by_time("T", 0, WALL + 11),
    "offset_by_time upper": lambda store: store.offset_by_time("T", 0, WALL + 11, upper=True),
    "offset_at_place": lambda store: store.offset_at_place("T", 0, store.pointers.readable // 2),
    "message_at": lambda store: bytes(store.message_at(store.pointers.start) or b""),
    "read_queue": lambda store: store.read_queue("T", 0, 9, 4, 1 << 20).next_offset,
    "slice": lambda store: bytes(store.slice(store.pointers.start, 1000)),
    "unchecked": lambda store: store.unchecked(store.pointers.start, 1000),
}


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("name", READS)
def test_a_read_from_memory_only_does_not_touch_what_is_not_there(
    name: str, batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = READS[name](cold_store(batches=batches)[0])
    store, disk = cold_store(batches=batches)
    file = type(disk.open(store._log.segments[0].path))
    for segment in store._log.segments:
        segment.forget_view()
    view, read = file.view, file.read

    def checked_view(one: Any) -> memoryview:
        assert one._path not in disk.evicted
        return view(one)

    def checked_read(one: Any, offset: int, size: int) -> bytes:
        assert one._path not in disk.evicted
        return read(one, offset, size)

    monkeypatch.setattr(file, "view", checked_view)
    monkeypatch.setattr(file, "read", checked_read)
    reads = 0
    while True:
        try:
            with store.reading_memory_only():
                found = READS[name](store)
            break
        except NotInMemory as missing:
            reads += 1
            missing.prefetch()
    assert found == expected
    assert reads > 0


def test_independent_reads_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_memory, "COLD_PARTS_MAX", 1)  # a limit of other reads
    store, disk = cold_store()
    files = len(disk.evicted)
    times: list[int] = []
    with pytest.raises(NotInMemory) as missing, store.reading_memory_only():
        times += [store.store_time("T", 0, number) for number in range(30)]
    assert times == [-1] * 30
    missing.value.prefetch()
    assert len(disk.evicted) <= files - 3
    with store.reading_memory_only():
        assert [store.store_time("T", 0, n) - WALL for n in range(30)] == list(range(30))


def test_outside_of_the_context_a_read_waits_for_the_device() -> None:
    store, _ = cold_store()
    with pytest.raises(NotInMemory), store.reading_memory_only():
        store.message_at(store.pointers.start)
    assert store.message_at(store.pointers.start) is not None
    store, _ = cold_store()

    def read_and_fail() -> None:
        with store.reading_memory_only():
            store.store_time("T", 0, 3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read_and_fail()
    with store.reading_memory_only():
        pass  # what the failed context lacked is forgotten


def test_a_search_by_key_reads_many_records_together() -> None:
    disk = SimDisk()
    store = Store.open(disk, SMALL, HOST, WALL)
    for number in range(30):
        keys = b"KEYS\x01k%d all" % number
        store.append([Draft("T", 0, b"x" * SIZE, keys, 0, born_host=HOST)], WALL + number)
    store.close(WALL + 30)
    store = Store.open(disk, SMALL, HOST, WALL + 30)
    newest = store.keys.newest("T", "all", 30, WALL, WALL + 30)
    places = store.keys.places("T", "all")
    assert newest is not None
    assert places is not None
    searches: tuple[SteppedSearch[Any], ...] = newest, places
    for search in searches:
        disk.evicted = {segment.path for segment in store._log.segments}
        reads, over = 0, False
        while not over:
            try:
                with store.reading_memory_only():
                    over = search.step(7)
            except NotInMemory as missing:
                reads += 1
                missing.prefetch()
        assert 0 < reads <= 10
    assert len(newest.result.records) == 30
    assert sorted(places.result.found[0]) == list(range(30))


def test_a_read_that_returned_without_a_record_counts_as_missing_whatever_happens() -> None:
    store, disk = cold_store()

    def read() -> None:
        with store.reading_memory_only():
            assert store.store_time("T", 0, 3) == -1
            disk.evicted.clear()  # another request has brought it into memory

    with pytest.raises(NotInMemory):
        read()
    with store.reading_memory_only():
        assert store.store_time("T", 0, 3) == WALL + 3


def probes(low: int, high: int, target: int) -> set[int]:
    """Return what a binary search for `target` examines."""
    found = set()
    while low < high:
        middle = read._middle(low, high)
        assert low <= middle < high
        found.add(middle)
        if middle < target:
            low = middle + 1
        else:
            high = middle
    assert low == target
    return found


def test_a_search_that_begins_again_examines_the_same_messages_although_others_are_added() -> None:
    examined: set[int] = set()
    for growth in range(0, 1_000, 30):
        examined |= probes(0, 17_500 + growth, 9_000)
    assert len(examined) <= 20


@given(st.integers(0, 1 << 40), st.integers(1, 5_000))
def test_the_middle_of_a_search_divides_it_well(low: int, size: int) -> None:
    assert len(probes(low, low + size, low + size // 3)) <= size.bit_length() + 2
