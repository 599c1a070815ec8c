"""A batch queue: upstream's bytes, offsets found by search, kept across restarts and cuts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk

from epochmq.base.errors import StoreDamaged
from epochmq.model.sys_flag import INNER_BATCH
from epochmq.store.batch_queue import INNER_MESSAGES_MAX, BatchQueue, inner_count
from epochmq.store.queue_files import QueueFiles


def made(disk: SimDisk | None = None) -> BatchQueue:
    return BatchQueue("T", 3, QueueFiles(disk or SimDisk(), 4), 460)


def add(queue: BatchQueue, *counts: int) -> None:
    """Units whose record lies at log offset 100 * their first queue offset."""
    for count in counts:
        queue.add(queue.next * 100, 90, -7, 5, count)
    queue.settled = queue.visible = queue.next


def test_the_bytes_are_upstreams() -> None:
    disk = SimDisk()
    queue = made(disk)
    add(queue, 3)
    queue.write_out()
    stored = disk.open("batchconsumequeue/T/3/" + "0" * 20).read(0, 460)
    assert stored[:46].hex() == (
        "0000000000000000" "0000005a" "fffffffffffffff9" "0000000000000005"
        "0000000000000000" "0003" "ffffffff" "00000000"
    )  # fmt: skip
    assert not any(stored[46:])


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=40), st.data())
def test_every_offset_leads_to_the_unit_that_holds_it(
    steps: list[tuple[int, bool]], data: st.DataObject
) -> None:
    queue = made()
    owners: list[int] = []
    for count, write in steps:
        owners += [queue.next] * count
        add(queue, count)
        if write:
            queue.write_out()
    assert queue.next == len(owners)
    assert queue.unit(queue.next) is None
    if owners:
        at = data.draw(st.integers(0, len(owners) - 1))
        assert queue.base_of(at) == owners[at]
        assert queue.unit(at) == (owners[at] * 100, 90, -7)


def test_a_hole_leads_to_the_next_unit() -> None:
    queue = made()
    add(queue, 2)
    queue.next += 5
    add(queue, 2)
    assert [queue.base_of(at) for at in (1, 2, 6, 7, 8)] == [0, 7, 7, 7, 7]


def test_found_again_after_a_restart_and_goes_on() -> None:
    disk = SimDisk()
    queue = made(disk)
    add(queue, *([4] * 25))
    queue.write_out()
    again = made(disk)
    again.load()
    assert (again.min, again.next, again.reach) == (0, 100, 9690)
    add(again, 2)
    again.write_out()
    assert again.base_of(101) == 100
    assert disk.list("batchconsumequeue/T/3") == [f"{at:020d}" for at in (0, 460, 920)]


@pytest.mark.parametrize(("log_offset", "end"), [(10_000, 20), (1600, 16), (1601, 20), (0, 0)])
def test_cut_and_cleared(log_offset: int, end: int) -> None:
    disk = SimDisk()
    queue = made(disk)
    add(queue, *([4] * 5))
    queue.write_out()
    queue.cut(log_offset)
    queue.clear_behind()
    assert queue.next == end
    again = made(disk)
    again.load()
    assert again.next == end


def test_a_failed_append_leaves_nothing() -> None:
    queue = made()
    add(queue, 3)
    queue.add(300, 90, 0, 5, 4)
    queue.add(700, 90, 0, 5, 1)
    queue.undo()
    assert (queue.next, queue.run.next, queue.unit(3)) == (3, 1, None)
    add(queue, 2)
    assert queue.unit(4) == (300, 90, -7)


def test_the_minimum_follows_the_log() -> None:
    queue = made()
    add(queue, 3, 4, 5)
    queue.set_floor(300)
    assert queue.min == 3
    queue.set_floor(9999)
    assert queue.min == queue.next == 12


def test_a_wrong_file_size_names_its_option() -> None:
    disk = SimDisk()
    disk.open("batchconsumequeue/T/3/" + "0" * 20, create_size=461)
    with pytest.raises(StoreDamaged, match="mapperFileSizeBatchConsumeQueue"):
        made(disk).load()


@pytest.mark.parametrize(
    ("flag", "text", "count"),
    [
        (0, b"INNER_NUM\x017", 1),
        (INNER_BATCH, b"a\x01b\x02INNER_NUM\x017", 7),
        (INNER_BATCH, b"INNER_NUM\x010", 1),
        (INNER_BATCH, b"INNER_NUM\x01-3", 1),
        (INNER_BATCH, b"INNER_NUM\x01" + b"9" * 99, 1),
        (INNER_BATCH, b"INNER_NUM\x0199999", INNER_MESSAGES_MAX),
        (INNER_BATCH, b"", 1),
    ],
)
def test_how_many_messages_a_record_says_it_holds(flag: int, text: bytes, count: int) -> None:
    assert inner_count(flag, text) == count
