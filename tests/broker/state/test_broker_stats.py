"""All counters: bounded, sampled in slices, marked each morning; what groups read is among them."""

import pytest

from epochmq.broker.state import broker_stats as core
from epochmq.broker.state import broker_stats as stat
from epochmq.broker.state.broker_stats import DAY_MS, MINUTE_STEP_MS, SLICE_ITEMS, Stats


def test_counts_by_name_and_key() -> None:
    stats = Stats(0, 0)
    stats.add("TOPIC_PUT_NUMS", "T", 5)
    stats.add("TOPIC_PUT_NUMS", "T", 5, 3)
    item = stats.find("TOPIC_PUT_NUMS", "T")
    assert item is stats.item("TOPIC_PUT_NUMS", "T")
    assert item is not None
    assert (item.value, item.times) == (10, 4)
    assert stats.find("TOPIC_PUT_NUMS", "U") is None


def test_a_full_table_counts_into_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "STAT_ITEMS_MAX", 2)
    stats = Stats(0, 0)
    for number in range(5):
        stats.add("N", str(number), 1)
    assert stats.statistics()["items"] == 2
    assert stats.find("N", "4") is None


def test_forget_drops_a_topic_and_a_group() -> None:
    stats = Stats(0, 0)
    for key in ("T", "T@0", "T@0@G", "U@G", "U", "TT"):
        stats.add("N", key, 1)
    stats.forget("T")
    stats.forget("G")
    assert [key for key in ("T", "T@0", "U@G", "U", "TT") if stats.find("N", key)] == ["U", "TT"]


def test_a_tick_samples_a_slice() -> None:
    stats = Stats(0, 0)
    for number in range(SLICE_ITEMS + 1):
        stats.add("N", str(number), 1)
    last = stats.item("N", str(SLICE_ITEMS))
    stats.tick(0, 0)
    assert stats.next_deadline(0) == 0
    stats.tick(1, 0)
    assert stats.next_deadline(1) == 1000
    last.value += 20
    stats.tick(MINUTE_STEP_MS, 0)
    stats.tick(MINUTE_STEP_MS + 1, 0)
    assert last.minute().sum == 20


def test_morning_marks_move_at_midnight() -> None:
    stats = Stats(0, 0)
    stats.put.total, stats.get_found.total = 100, 50
    stats.tick(0, DAY_MS)
    stats.put.total, stats.get_found.total = 180, 60
    stats.tick(10, DAY_MS + 5)
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (0, 100)
    stats.tick(20, 2 * DAY_MS)
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (100, 180)
    assert (stats.get_yesterday_morning, stats.get_today_morning) == (50, 60)


def value(stats: Stats, name: str, key: str) -> tuple[int, int] | None:
    item = stats.find(name, key)
    return None if item is None else (item.value, item.times)


def test_reads_are_counted_by_group_and_queue() -> None:
    stats = Stats(0, 0, "C")
    stats.read("T", 0, "G", 3, 300, next_offset=3)
    stats.read("T", 0, "G", 2, 200, next_offset=5)
    stats.read("T", 1, "G", 1, 100, next_offset=9)
    assert value(stats, stat.GROUP_GET_NUMS, "T@G") == (6, 3)
    assert value(stats, stat.GROUP_GET_SIZE, "T@G") == (600, 3)
    assert value(stats, stat.QUEUE_GET_NUMS, "T@0@G") == (5, 2)
    assert value(stats, stat.QUEUE_GET_SIZE, "T@1@G") == (100, 1)
    assert stats.get_found.total == 6
    assert value(stats, stat.BROKER_GET_NUMS, "C") == (6, 6)
    assert value(stats, stat.BROKER_PUT_NUMS, "C") is None
    stats.put.total = 7
    stats.tick(0, 0)
    assert value(stats, stat.BROKER_PUT_NUMS, "C") == (7, 7)


def test_how_far_a_group_has_pulled() -> None:
    stats = Stats(0, 0)
    assert stats.pulled_to("T", 0, "G") == 0
    stats.read("T", 0, "G", 3, 300, next_offset=30)
    stats.read("T", 0, "H", 3, 300, next_offset=40)
    assert stats.pulled_to("T", 0, "G") == 30
    stats.forget_pulled("T", "G")
    assert (stats.pulled_to("T", 0, "G"), stats.pulled_to("T", 0, "H")) == (0, 40)
    stats.forget("H")
    assert stats.pulled_to("T", 0, "H") == 0


def test_readers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "STAT_ITEMS_MAX", 2)
    stats = Stats(0, 0)
    for number in range(5):
        stats.read("T", number, "G", 1, 1, next_offset=1)
    assert stats.get_found.total == 5
    assert stats.pulled_to("T", 1, "G") == 1
    assert stats.pulled_to("T", 4, "G") == 0
