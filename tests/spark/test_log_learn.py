"""A learner's stream as rows: equal to the rows of the files, wherever ranges are cut."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.base.errors import StoreDamaged
from epochmq.spark.log_export import LogExport, LogRange
from epochmq.spark.log_options import parse_log_options
from epochmq.spark.log_plan import find_replicas, plan
from epochmq.spark.log_records import WholeRecords
from epochmq.spark.log_rows import RowMaker
from epochmq.spark.log_scan import LogDamage, RecordRun
from epochmq.spark.log_source import LearnerSplit, rows_of, split_of
from epochmq.store.draft import file_name

from .exporting import BROKER, all_of, export_of, joined, masters
from .logs import LogImage, image

LEARNER = {"readFrom": "learner", "nameServer": "127.0.0.1:1"}


def rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


async def test_rows_of_a_stream_are_those_of_the_files(tmp_path: Path) -> None:
    columns = "topic,queueId,queueOffset,body,properties,storeTimestamp,commitLogOffset,epoch"
    async with masters(tmp_path) as broker:
        options = parse_log_options({**LEARNER, "columns": columns})
        learned = await asyncio.to_thread(lambda: rows(rows_of(export_of(broker), BROKER, options)))
    files = parse_log_options({"path": str(tmp_path / "1"), "columns": columns})
    made = RowMaker(files)
    read = [row for split in plan(find_replicas(files), files) for row in rows(made.split(split))]
    assert learned == read
    assert {row["epoch"] for row in learned} == {1, 3}


async def test_places_epochs_and_bounds_of_a_stream(tmp_path: Path) -> None:
    async with masters(tmp_path) as broker:
        given = {**LEARNER, "columns": "epoch,file,replica,cut,confirmed,commitLogOffset"}
        options = parse_log_options({**given, "epoch": "3"})
        found = await asyncio.to_thread(lambda: rows(rows_of(export_of(broker), BROKER, options)))
        entries = broker.replication.node.epochs.entries
        size = broker.store.file_bytes
    assert min(row["commitLogOffset"] for row in found) == entries[-1].start
    assert all(row["replica"] == BROKER and row["confirmed"] for row in found)
    assert all(int(row["file"]) == row["commitLogOffset"] // size * size for row in found)
    assert len(found) == 50


async def test_a_split_is_the_same_range_whenever_it_is_read(tmp_path: Path) -> None:
    async with masters(tmp_path) as broker:
        split = await asyncio.to_thread(split_of, export_of(broker), BROKER)
        assert split == LearnerSplit(BROKER, 0, broker.end)
        broker.write(10)
        export = export_of(broker, split.start, split.end)
        ranges = await all_of(export)
        assert joined(ranges) == broker.bytes()[: split.end]


FILE = image(30, 9, base=0, room=5000)


class Ranges:
    """Stands for an export: log bytes, cut at these places."""

    def __init__(self, log: LogImage, cuts: list[int]) -> None:
        self.file_bytes = self.end = len(log.data)
        edges = [0, *sorted(set(cuts)), len(log.data)]
        self.pieces = [
            LogRange(
                low, 1, memoryview(np.frombuffer(bytes(log.data[low:high]), np.uint8)).cast("B")
            )
            for low, high in pairwise(edges)
            if low < high
        ]


def taken(log: LogImage, cuts: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    ranges = Ranges(log, cuts)
    whole = WholeRecords(cast(LogExport, ranges), crc=True)
    offsets: list[int] = []
    damaged: list[tuple[int, int]] = []
    for piece in ranges.pieces:
        for data, base, found in whole.add_range(piece):
            for each in found:
                assert base <= each.start < each.end <= base + len(data)
                if isinstance(each, RecordRun):
                    offsets += each.offsets.tolist()
                else:
                    assert isinstance(each, LogDamage)
                    damaged.append((each.start, each.end))
    return offsets, damaged


places = st.lists(st.integers(0, len(FILE.data)), max_size=20)


@settings(max_examples=examples(80))
@given(places)
def test_records_are_whole_wherever_ranges_are_cut(cuts: list[int]) -> None:
    assert taken(FILE, cuts) == ([offset for offset, _ in FILE.records], [])


@settings(max_examples=examples(60))
@given(places, st.integers(0, 29))
def test_damage_is_told_once_wherever_ranges_are_cut(cuts: list[int], hit: int) -> None:
    log = LogImage(bytearray(FILE.data), FILE.base, FILE.records, FILE.filler)
    offset, size = FILE.records[hit]
    log.data[offset + 5] ^= 255
    assert taken(log, cuts) == (
        [at for at, _ in FILE.records if at != offset],
        [(offset, offset + size)],
    )


async def test_damage_at_the_master_fails_by_default(tmp_path: Path) -> None:
    async with masters(tmp_path, 1) as broker:
        with open(tmp_path / "1" / "commitlog" / file_name(0), "r+b") as log:
            log.seek(4)
            log.write(b"\xff" * 4)
        options = parse_log_options({**LEARNER, "columns": "body"})
        with pytest.raises(StoreDamaged, match="onCorrupt=skip"):
            await asyncio.to_thread(lambda: rows(rows_of(export_of(broker), BROKER, options)))
