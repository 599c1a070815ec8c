"""Queue ends are shown with the log position they belong to."""

from sim.kernel.disk import SimDisk

from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.draft import UNIT
from epochmq.store.queue_files import QueueFiles
from epochmq.store.visibility import Arrivals, Visibility


def queue(topic: str, end: int) -> ConsumeQueue:
    made = ConsumeQueue(topic, 0, QueueFiles(SimDisk(), 4), 200)
    made.next = end
    return made


def test_shown_at_once() -> None:
    told: list[Arrivals] = []
    visibility = Visibility()
    visibility.arrivals = told.append
    one = queue("A", 3)
    visibility.show([one])
    visibility.show([])
    assert (one.visible, told) == (3, [[("A", 0, 3)]])


def test_held_until_readable() -> None:
    told: list[Arrivals] = []
    visibility = Visibility()
    visibility.arrivals = told.append
    one, two = queue("A", 3), queue("B", 1)
    visibility.hold(100, [one, two])
    one.next = 5
    visibility.hold(200, [one])
    visibility.hold(250, [])
    visibility.advance(99)
    assert (one.visible, told) == (0, [])
    visibility.advance(100)
    assert (one.visible, two.visible, told) == (3, 1, [[("A", 0, 3), ("B", 0, 1)]])
    one.next = 6
    visibility.hold(300, [one])
    visibility.advance(300)
    assert (one.visible, told[1:]) == (6, [[("A", 0, 6)]])


def test_cleared() -> None:
    visibility = Visibility()
    one = queue("A", 3)
    visibility.hold(100, [one])
    visibility.clear()
    visibility.advance(100)
    assert one.visible == 0


def units(topic: str, *offsets: int) -> ConsumeQueue:
    """A queue whose records are 10 bytes long."""
    made = queue(topic, 0)
    for offset in offsets:
        made.tail += UNIT.pack(offset, 10, 0)
        made.next += 1
    made.settled = made.next
    return made


def test_inside_a_run_what_is_readable_shows() -> None:
    visibility = Visibility()
    one, two = units("A", 0, 20), units("B", 10)
    visibility.hold(30, [one, two])
    visibility.advance(15)
    assert (one.visible, two.visible) == (1, 0)
    visibility.advance(20)
    assert (one.visible, two.visible) == (1, 1)
    visibility.advance(30)
    assert one.visible == 2


def test_recovered_queues_show_by_their_units() -> None:
    told: list[Arrivals] = []
    visibility = Visibility()
    visibility.arrivals = told.append
    one, two = units("A", 0, 20, 40), units("B", 10)
    visibility.hold_all([one, two], 25)
    assert (one.visible, two.visible) == (1, 1)
    one.tail += UNIT.pack(50, 10, 0)
    one.next += 1
    visibility.hold(60, [one])
    visibility.advance(50)
    assert (one.visible, told) == (3, [[("A", 0, 3)]])
    visibility.advance(60)
    assert one.visible == 4


def test_what_was_cut_is_never_shown() -> None:
    visibility = Visibility()
    one, two = units("A", 0, 20), units("B", 10)
    visibility.hold(20, [one, two])
    visibility.hold(30, [one])
    visibility.advance(10)
    for each in (one, two):
        each.truncate(10)
    visibility.cut(10)
    assert (one.next, two.next) == (1, 0)
    visibility.advance(99)
    assert (one.visible, two.visible) == (1, 0)
