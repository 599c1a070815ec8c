"""All queues: found, written in slices, deleted."""

from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.draft import UNIT
from epochmq.store.queue_table import SCHEDULE_TOPIC, QueueTable


def add(table: QueueTable, topic: str, queue_id: int = 0) -> ConsumeQueue:
    queue = table.get(topic, queue_id)
    queue.tail += UNIT.pack(0, 10, 0)
    queue.next += 1
    queue.settled = queue.next
    if not queue.dirty:
        table.mark_dirty(queue)
    return queue


def test_written_in_slices_and_loaded() -> None:
    disk = SimDisk()
    table = QueueTable(disk, SMALL)
    for number in range(5):
        add(table, "T", number)
    assert table.write_some(3) == 2
    assert table.write_some(3) == 0
    assert not any(queue.dirty for queue in table.all())
    disk.make_dir("consumequeue/T/9")
    disk.make_dir("consumequeue/T/other")
    again = QueueTable(disk, SMALL)
    again.load()
    assert sorted(again.topics["T"]) == [0, 1, 2, 3, 4]
    assert again.count == len(again.all()) == 5
    assert (again.find("T", 9), again.find("U", 0)) == (None, None)


def test_deleted_queues_are_not_written_again() -> None:
    disk = SimDisk()
    table = QueueTable(disk, SMALL)
    queue = add(table, "A")
    add(table, "B")
    table.write_some(1)
    table.delete("A")
    queue.write_out()
    assert (table.write_some(9), list(table.topics)) == (0, ["B"])
    assert disk.list("consumequeue") == ["B"]


def test_reset() -> None:
    disk = SimDisk()
    table = QueueTable(disk, SMALL)
    queue = add(table, "A")
    table.write_some(1)
    table.reset(queue)
    assert (queue.next, disk.exists(queue.folder)) == (0, False)
    table.prune()
    assert table.topics == {}
    add(table, "A")
    table.reset_all()
    assert (table.all(), table.dirty, disk.exists("consumequeue")) == ([], [], False)


def test_delays_of_the_delay_topic() -> None:
    table = QueueTable(SimDisk(), replace(SMALL, delays_ms=(5, 7)))
    assert [table.get(SCHEDULE_TOPIC, n).delay_ms for n in range(3)] == [5, 7, 1000]
    assert table.get("T", 0).delay_ms is None
