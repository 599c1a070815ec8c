"""All counters: bounded, sampled in slices, marked each morning."""

import pytest

from epochmq.broker.stats import core
from epochmq.broker.stats.core import DAY_MS, SLICE_ITEMS, Stats
from epochmq.broker.stats.item import MINUTE_STEP_MS


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
