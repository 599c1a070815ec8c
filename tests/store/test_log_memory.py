"""What of the log is in memory: which parts are examined, and which are read."""

from collections.abc import Sequence
from typing import Any

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.store import log_memory
from epochmq.store.draft import PRE_BLANK_SIZE, Appended, Draft
from epochmq.store.log_memory import LogMemory
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
