"""Whole answers to pulls, made natively: what `read_queue` finds, or no answer."""

from dataclasses import replace
from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, draft, has_batch_queues

from epochmq.base.errors import OurBug
from epochmq.native import library
from epochmq.store.draft import PRE_BLANK, Draft
from epochmq.store.pull_answers import PullAnswers
from epochmq.store.read import GetStatus
from epochmq.store.store import Store

WALL = 1_700_000_000_000
PARTS = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())


def filled(count: int = 60, **changes: int) -> Store:
    store = Store.open(SimDisk(), replace(SMALL, **changes), HOST, WALL, has_batch_queues)
    rng = Random("pull answers")
    for number in range(count):
        store.append([draft(number, rng)], WALL)
    store.tick(0, WALL)
    for topic in store.topics():
        for queue_id in store.queues(topic):
            store.queue_bounds(topic, queue_id)
    return store


def answers_of(store: Store) -> PullAnswers:
    answers = store.pull_answers(PARTS)
    assert answers is not None
    return answers


def expected(
    store: Store, queue_id: int, offset: int, count: int, room: int
) -> tuple[bytes, int, int, int] | None:
    """What the general way answers, when it finds messages."""
    found = store.read_queue("T0", queue_id, offset, count, room)
    if found.status is not GetStatus.FOUND:
        return None
    low, high = store.queue_bounds("T0", queue_id)
    head = b"a1b%dc%dd%de2f3g-4h" % (found.next_offset, low, high)
    body = b"".join(found.chunks)
    size = len(head)
    frame = (4 + size + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + head + body
    return frame, found.count, found.size, found.next_offset


@pytest.mark.parametrize("file_bytes", [4096, 1 << 20])
@pytest.mark.parametrize("window_bytes", [0, 1 << 30])
def test_an_answer_is_what_the_general_way_finds(file_bytes: int, window_bytes: int) -> None:
    store = filled(commit_log_file_bytes=file_bytes, memory_window_bytes=window_bytes)
    answers, rng, made = answers_of(store), Random("asks"), 0
    for _ in range(600):
        queue_id, offset = rng.choice((0, 1, 1, 2)), rng.randrange(-2, 25)
        count, room = rng.choice((1, 2, 5, 32)), rng.choice((1, 500, 3000, 1 << 20))
        answer = answers.make("T0", queue_id, offset, count, room, 1, 2, 3, -4)
        if answer is None:
            continue
        made += 1
        found = answers.count, answers.size, answers.next_offset
        assert (answer, *found) == expected(store, queue_id, offset, count, room)
    assert made > 50
    store.close(WALL)


def make(store: Store, topic: str = "T0", offset: int = 0, count: int = 3) -> bytes | None:
    return answers_of(store).make(topic, 0, offset, count, 1 << 20, 0, 0, 0, 0)


def test_cases_that_are_not_usual_have_no_answer() -> None:
    store = filled(commit_log_file_bytes=1 << 20)
    assert make(store) is not None
    assert make(store, "unknown") is None
    assert make(store, "Batch0") is None
    assert make(store, offset=-1) is None
    assert make(store, offset=store.queue_bounds("T0", 0)[1]) is None
    assert make(store, count=513) is None
    queue = store._queues.get("T0", 0)
    first = queue.units(0, 1)
    queue.put_unit(0, PRE_BLANK)
    assert make(store) is None
    queue.put_unit(0, first)
    store.damage.report(1 << 19, (1 << 19) + 1, "far behind all messages")
    assert make(store) is None


def test_only_messages_of_this_run_and_this_start_of_the_log() -> None:
    store = filled(commit_log_file_bytes=1 << 20)
    queue = store._queues.get("T0", 0)
    queue.trusted = 2
    assert (make(store, offset=1), make(store, offset=2) is None) == (None, False)
    queue.floor = -1
    assert make(store, offset=2) is None


def test_messages_that_left_the_memory_have_no_answer() -> None:
    store = filled(commit_log_file_bytes=1 << 20)
    disk = store._files.disk
    assert isinstance(disk, SimDisk)
    disk.evicted = {f"commitlog/{name}" for name in disk.list("commitlog")}
    assert make(store) is None
    disk.evicted = set()
    assert make(store) is not None


@pytest.mark.parametrize("at", [0, 4, 20, 28], ids=["size", "magic", "queue offset", "log offset"])
def test_a_changed_record_has_no_answer(at: int) -> None:
    store = filled(commit_log_file_bytes=1 << 20)
    place = store.units("T0", 0, 1, 1)[0][0]
    segment = store._log.segments[0]
    segment.write(place + at, bytes([segment.view[place + at] ^ 1]))
    assert make(store) is None
    assert make(store, offset=1) is None
    assert answers_of(store).make("T0", 0, 1, 3, 1, 0, 0, 0, 0) is None


def test_large_answers_are_not_copied() -> None:
    store = Store.open(SimDisk(), replace(SMALL, commit_log_file_bytes=1 << 22), HOST, WALL)
    for _ in range(9):
        store.append([Draft("T0", 0, bytes(60_000), b"", 0, born_host=HOST)], WALL)
    store.tick(0, WALL)
    store.queue_bounds("T0", 0)
    assert make(store, count=8) is not None
    assert make(store, count=9) is None


def test_reads_are_counted() -> None:
    store = filled(commit_log_file_bytes=1 << 20)
    before = store.statistics()
    make(store, count=3)
    after = store.statistics()
    assert after["get_found"] == int(before["get_found"]) + 1
    assert after["get_messages"] == int(before["get_messages"]) + 3


def test_the_header_has_eight_parts() -> None:
    with pytest.raises(OurBug, match="8 constant parts"):
        filled(1).pull_answers(PARTS[1:])


def test_a_long_header_has_no_answer() -> None:
    store = filled(commit_log_file_bytes=1 << 20)
    answers = store.pull_answers([b"x" * 900, *PARTS[1:]])
    assert answers is not None
    assert answers.make("T0", 0, 0, 3, 1 << 20, 0, 0, 0, 0) is None
