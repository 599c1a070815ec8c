"""A task's files: by topic and day, with true bounds, and none left when it fails."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.spark.jobs.lake import BROKER, DAY_MS, START_MS, FakeCluster, one_record, topic

from epochmq.base.errors import OurBug
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_task import (
    OPEN_FILES_MAX,
    Work,
    archive_ranges,
    dead_schema_of,
    schema_of,
)
from epochmq.spark.typed import Typing

QUEUE = MessageQueue("T", BROKER, 0)


def test_files_and_their_bounds(tmp_path: Path) -> None:
    made = topic(queues=1, count=3)
    made.add(4, at_ms=START_MS + DAY_MS)
    written = archive_ranges(
        Work(7, str(tmp_path), None), 2, [Range(QUEUE, 1, 6)], FakeCluster(made).fetch
    )
    assert (written.rows, written.missing, written.dead) == (5, 0, [])
    first, second = sorted(written.files, key=lambda each: each.path)
    assert first.path.startswith("topic=T/storeDate=2023-11-14/e000000000007-00002-")
    assert (first.rows, second.rows) == (2, 3)
    assert (first.topic, first.store_date) == ("T", "2023-11-14")
    assert first.bytes == (tmp_path / first.path).stat().st_size
    assert second.stats["queueOffset"] == [3, 5, 0]
    assert second.stats["storeTimestamp"] == [*["2023-11-15T22:13:20.000Z"] * 2, 0]
    json.dumps(second.stats)
    table = pq.read_table(tmp_path / second.path, partitioning=None)
    assert table["queueOffset"].to_pylist() == [3, 4, 5]
    assert table.schema.names == schema_of(Work(7, "", None)).names


def test_many_days_at_once(tmp_path: Path) -> None:
    made = topic(queues=1)
    for day in range(OPEN_FILES_MAX + 5):
        made.add(1, at_ms=START_MS + day * DAY_MS)
    made.add(1)  # and the first day again, whose file is closed by now
    count = len(made.queues[0])
    written = archive_ranges(
        Work(1, str(tmp_path), None), 0, [Range(QUEUE, 0, count)], FakeCluster(made).fetch
    )
    assert sum(each.rows for each in written.files) == written.rows == count
    assert len(written.files) == count


def test_a_failed_task_leaves_nothing(tmp_path: Path) -> None:
    made = topic(queues=1, count=20)

    def breaks(one: Range) -> Iterator[bytes]:
        yield from FakeCluster(made).fetch(one)
        raise OSError("the line is cut")

    with pytest.raises(OSError, match="the line is cut"):
        archive_ranges(Work(1, str(tmp_path), None), 0, [Range(QUEUE, 0, 20)], breaks)
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_is_not_there_is_counted(tmp_path: Path) -> None:
    work = Work(1, str(tmp_path), None)
    written = archive_ranges(work, 0, [Range(QUEUE, 0, 9)], lambda _one: [])
    assert (written.rows, written.missing, written.files) == (0, 9, [])
    twice = [one_record("T", 0, 0, b"")] * 2
    with pytest.raises(OurBug, match="gave 2 messages"):
        archive_ranges(work, 0, [Range(QUEUE, 0, 1)], lambda _one: twice)
    assert not list(tmp_path.rglob("*.parquet"))


def test_dead_letters_go_elsewhere(tmp_path: Path) -> None:
    made = topic(queues=1, count=2)
    made.add(1, b"{")
    good, dead = tmp_path / "good", tmp_path / "dead"
    work = Work(1, str(good), str(dead), typing=Typing("json", "n int"))
    written = archive_ranges(work, 0, [Range(QUEUE, 0, 3)], FakeCluster(made).fetch)
    assert (written.files[0].rows, written.dead[0].rows) == (2, 1)
    table = pq.read_table(dead / written.dead[0].path, partitioning=None)
    assert table.schema.names == dead_schema_of(work).names
    assert table["error"].to_pylist()[0].startswith("no JSON")
