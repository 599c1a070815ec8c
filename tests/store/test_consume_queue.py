"""One queue: units in memory, in files, across both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk

from epochmq.base.errors import StoreDamaged
from epochmq.store.consume_queue import KEEP_UNITS, ConsumeQueue
from epochmq.store.draft import PRE_BLANK, UNIT
from epochmq.store.queue_files import QueueFiles


def made(disk: SimDisk | None = None, file_bytes: int = 200) -> ConsumeQueue:
    return ConsumeQueue("T", 3, QueueFiles(disk or SimDisk(), 4), file_bytes)


def add(queue: ConsumeQueue, count: int) -> None:
    for _ in range(count):
        queue.tail += UNIT.pack(queue.next * 100, 100, queue.next)
        queue.next += 1
    queue.settled = queue.next


def numbers(queue: ConsumeQueue, at: int, count: int) -> list[int]:
    return [offset // 100 for offset, _size, _tags in UNIT.iter_unpack(queue.units(at, count))]


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=20), st.data())
def test_units_come_back_from_wherever_they_are(
    steps: list[tuple[int, bool]], data: st.DataObject
) -> None:
    queue = made()
    for count, write in steps:
        add(queue, count)
        if write:
            queue.write_out()
    at = data.draw(st.integers(0, queue.next))
    count = data.draw(st.integers(0, 50))
    assert numbers(queue, at, count) == list(range(at, min(at + count, queue.next)))


def test_the_tail_keeps_the_newest_only() -> None:
    queue = made(file_bytes=20_000)
    add(queue, KEEP_UNITS * 3)
    queue.write_out()
    assert queue.tail_start > 0
    assert len(queue.tail) <= (2 * KEEP_UNITS + 1) * 20
    assert numbers(queue, 0, 2000) == list(range(KEEP_UNITS * 3))


def test_found_again_after_a_restart() -> None:
    disk = SimDisk()
    queue = made(disk)
    add(queue, 25)
    queue.write_out()
    again = made(disk)
    again.load()
    assert (again.min, again.next, again.unit(24)) == (0, 25, (2400, 100, 24))
    add(again, 3)
    assert numbers(again, 20, 99) == list(range(20, 28))
    disk.open("consumequeue/T/3/" + "600".zfill(20), create_size=0)
    disk.open("consumequeue/T/3/" + "800".zfill(20), create_size=200)
    again = made(disk)
    again.load()
    assert again.next == 25
    empty = made(SimDisk())
    empty.load()
    assert (empty.min, empty.next) == (0, 0)


def test_a_file_of_another_size() -> None:
    disk = SimDisk()
    disk.open("consumequeue/T/3/" + "0" * 20, create_size=60)
    with pytest.raises(StoreDamaged, match="60 bytes"):
        made(disk).load()


def test_beginning_inside_a_file_fills_what_is_below() -> None:
    disk = SimDisk()
    queue = made(disk)
    queue.place(13, 13)
    add(queue, 2)
    queue.write_out()
    data = disk.read_file("consumequeue/T/3/" + "200".zfill(20)) or b""
    assert data[:60] == PRE_BLANK * 3
    again = made(disk)
    again.load()
    assert (again.min, again.next) == (10, 15)
    again.set_floor(0)
    assert again.min == 13
    again.set_floor(1301)
    assert again.min == 14


def test_cut_and_clear_behind() -> None:
    disk = SimDisk()
    queue = made(disk)
    add(queue, 35)
    queue.write_out()
    queue.cut(1250)
    assert queue.next == 13
    queue.clear_behind()
    again = made(disk)
    again.load()
    assert again.next == 13
    assert disk.list("consumequeue/T/3") == ["0" * 20, "200".zfill(20)]
    again.cut(1000)
    again.clear_behind()
    assert disk.list("consumequeue/T/3") == ["0" * 20]
    again.cut(0)
    assert (again.min, again.next) == (0, 0)


def test_undo_takes_back_what_did_not_settle() -> None:
    queue = made()
    add(queue, 2)
    queue.tail += UNIT.pack(0, 0, 0)
    queue.next += 1
    queue.undo()
    assert (queue.next, len(queue.tail)) == (2, 40)
    assert queue.unit(2) is None


def test_long_topics_have_two_length_bytes() -> None:
    queue = ConsumeQueue("t" * 128, 0, QueueFiles(SimDisk(), 1), 200)
    assert (queue.name[:2], queue.base_bytes) == (b"\0\x80", 92 + 128)
    assert made().base_bytes == 92
