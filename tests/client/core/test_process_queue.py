"""The window of a queue: nothing is skipped, the commit never passes an undone message."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.client.core import consumer_state as pq
from epochmq.client.core.consumer_state import ProcessQueue
from epochmq.model.message import StoredMessage


def message(offset: int, size: int = 100) -> StoredMessage:
    host = ("127.0.0.1", 10911)
    return StoredMessage(
        topic="t",
        queue_id=0,
        queue_offset=offset,
        offset=offset * 100,
        size=size,
        body=b"",
        flag=0,
        sys_flag=0,
        born_wall_ms=0,
        born_host=host,
        store_wall_ms=0,
        store_host=host,
        reconsume_times=0,
        prepared_offset=0,
        properties={},
        body_crc=0,
    )


def test_the_commit_offset_is_the_smallest_undone() -> None:
    window = ProcessQueue()
    assert window.commit_offset is None
    window.put([message(n) for n in range(3)], 3)
    first, second, third = window.next_messages(5)
    window.done([second, third])
    assert window.commit_offset == 0
    window.done([first])
    assert window.commit_offset == 3


def test_a_repeat_of_a_pulled_message_is_dropped() -> None:
    window = ProcessQueue()
    window.put([message(0)], 1)
    window.put([message(0), message(1)], 2)
    assert [m.queue_offset for m in window.next_messages(9)] == [0, 1]


def test_failed_messages_come_first_again() -> None:
    window = ProcessQueue()
    window.put([message(n) for n in range(4)], 4)
    taken = window.next_messages(2)
    window.put_back(taken)
    assert [m.queue_offset for m in window.next_messages(4)] == [0, 1, 2, 3]
    assert not window.has_waiting


def test_flow_control_by_count_bytes_and_span() -> None:
    window = ProcessQueue()
    window.put([message(n) for n in range(pq.COUNT_MAX + 1)], pq.COUNT_MAX + 1)
    assert window.is_full()
    heavy = ProcessQueue()
    heavy.put([message(0, pq.BYTES_MAX + 1)], 1)
    assert heavy.is_full()
    small = ProcessQueue(bytes_max=10)
    small.put([message(0, 10)], 1)
    assert small.is_full()
    wide = ProcessQueue()
    wide.put([message(0), message(5_000)], 5_001)
    assert wide.is_full()
    assert not ProcessQueue().is_full()
    assert heavy.statistics()["cachedMsgCount"] == 1


def test_a_lock_goes_stale() -> None:
    window = ProcessQueue()
    assert not window.is_locked(0)
    window.locked_at_ms = 0
    assert window.is_locked(pq.LOCK_LIFE_MS - 1)
    assert not window.is_locked(pq.LOCK_LIFE_MS)


def test_whether_somebody_else_may_have_had_the_lock() -> None:
    window = ProcessQueue()
    assert not window.was_locked_since(-1)
    window.locked_at_ms = 5
    assert window.was_locked_since(4)
    assert not window.was_locked_since(5)


@given(st.lists(st.sampled_from(["put", "take", "done", "back"]), max_size=60), st.randoms())
def test_commit_never_passes_an_undone_message(verbs: list[str], chance: object) -> None:
    window, undone, held, end = ProcessQueue(), set[int](), list[StoredMessage](), 0
    for verb in verbs:
        if verb == "put":
            window.put([message(end), message(end + 1)], end + 2)
            undone |= {end, end + 1}
            end += 2
        elif verb == "take":
            held += window.next_messages(1)
        elif verb == "done" and held:
            gone = held.pop(chance.randrange(len(held)))  # type: ignore[attr-defined]
            window.done([gone])
            undone.discard(gone.queue_offset)
        elif verb == "back" and held:
            window.put_back([held.pop()])
        assert window.commit_offset == (min(undone) if undone else (end or None))
