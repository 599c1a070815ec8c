"""Deriving queues and keys again from records."""

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.model.tags import java_hash
from epochmq.store.dispatch import HOLE_UNITS_MAX, LogDispatcher, QueueGap, index_keys
from epochmq.store.draft import PRE_BLANK_SIZE
from epochmq.store.queue_table import SCHEDULE_TOPIC, QueueTable
from epochmq.store.scan import DispatchEntry


def entry(queue_offset: int, offset: int = 0, **over: object) -> DispatchEntry:
    fields: dict[str, object] = {
        "queue_id": 0,
        "sys_flag": 0,
        "store_wall_ms": 1000,
        "topic": b"T",
        "properties": b"",
        **over,
    }
    fields |= {"offset": offset, "size": 100, "queue_offset": queue_offset}
    return DispatchEntry(**fields)  # type: ignore[arg-type]


def made(*, from_start: bool = True, index: bool = True) -> tuple[QueueTable, LogDispatcher]:
    table = QueueTable(SimDisk(), SMALL)
    return table, LogDispatcher(table, (1000, 5000), from_start=from_start, index=index)


def add(dispatcher: LogDispatcher, *entries: DispatchEntry) -> None:
    for one in entries:
        dispatcher.add(one, unit=True, keys=True)


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        (b"", ()),
        (b"KEYS\x01a b  c\x02", ("a", "b", "c")),
        (b"UNIQ_KEY\x01u\x02KEYS\x01a", ("u", "a")),
        (b"KEYS\x01\x02UNIQ_KEY\x01u\x02", ("u",)),
    ],
)
def test_keys_in_their_order(properties: bytes, keys: tuple[str, ...]) -> None:
    assert index_keys(properties) == keys


def test_units_and_keys() -> None:
    table, dispatcher = made()
    tagged = b"TAGS\x01A\x02KEYS\x01k\x02"
    add(dispatcher, entry(0, 0, properties=tagged), entry(1, 100, sys_flag=0x8))
    add(dispatcher, entry(0, 200, sys_flag=0x4, properties=tagged), entry(0, 300, sys_flag=0xC))
    queue = table.get("T", 0)
    assert [queue.unit(n) for n in range(3)] == [(0, 100, java_hash("A")), (100, 100, 0), None]
    assert (queue.visible, [item[2] for item in dispatcher.staged]) == (2, [0, 200])
    dispatcher.add(entry(2, 400, properties=tagged), unit=False, keys=False)
    assert (queue.next, len(dispatcher.staged)) == (2, 2)


def test_from_the_logs_start_an_empty_queue_begins_anywhere() -> None:
    table, dispatcher = made()
    add(dispatcher, entry(77), entry(78, 100))
    queue = table.get("T", 0)
    assert (queue.min, queue.next) == (77, 79)


def test_a_gap_asks_for_a_rebuild_and_a_rebuild_fills_it() -> None:
    _table, dispatcher = made(from_start=False)
    with pytest.raises(QueueGap):
        add(dispatcher, entry(0), entry(3, 100))
    with pytest.raises(QueueGap):
        add(dispatcher, entry(5, topic=b"U"))
    table, dispatcher = made()
    add(dispatcher, entry(5), entry(8, 100))
    queue = table.get("T", 0)
    assert queue.unit(6) == queue.unit(7) == (100, PRE_BLANK_SIZE, 0)
    assert queue.unit(8) == (100, 100, 0)


def test_a_topic_created_again_starts_again() -> None:
    table, dispatcher = made()
    add(dispatcher, entry(0), entry(1, 100), entry(0, 200), entry(1, 300))
    queue = table.get("T", 0)
    assert (queue.next, queue.unit(0)) == (2, (200, 100, 0))


@pytest.mark.parametrize("odd", [3, 1 << 62, 7 + HOLE_UNITS_MAX])
def test_impossible_queue_offsets_get_no_unit(odd: int) -> None:
    table, dispatcher = made()
    add(dispatcher, entry(5), entry(odd, 100), entry(6, 200))
    assert (dispatcher.oddities, table.get("T", 0).next) == (1, 7)


def test_the_delay_topics_units() -> None:
    _table, dispatcher = made()

    def code(properties: bytes) -> int:
        return dispatcher.tags_code(entry(0, properties=properties), SCHEDULE_TOPIC)

    assert [code(b"DELAY\x01%d\x02" % level) for level in (1, 2, 9)] == [2000, 6000, 6000]
    assert code(b"DELAY\x010\x02TAGS\x01A\x02") == java_hash("A")
    assert code(b"DELAY\x01x\x02") == 0


def test_no_index_no_keys() -> None:
    _table, dispatcher = made(index=False)
    add(dispatcher, entry(0, properties=b"KEYS\x01k\x02"))
    assert dispatcher.staged == []


def test_long_runs_are_written_out() -> None:
    table, dispatcher = made()
    add(dispatcher, *(entry(n, n * 100) for n in range(500)))
    assert table.get("T", 0).written >= 204
