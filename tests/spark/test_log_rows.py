"""Rows of log bytes: the messages, where they were found, and what damage does to them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.store.replicas import fill
from tests.store.world import HOST, SMALL

from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.model.record import decode, encode
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_ZSTD
from epochmq.runtime.disk import RealDisk
from epochmq.spark.log_files import LogFile, StoreDirectory
from epochmq.spark.log_options import LogOptions, parse_log_options
from epochmq.spark.log_plan import LogSplit, find_replicas, plan
from epochmq.spark.log_rows import RowMaker, arrow_schema, ddl, only
from epochmq.store.epochs import EpochFile

from .logs import WALL, image, written

Read = Callable[..., LogOptions]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rows")
    store = written(root, 40, replace(SMALL, replicated=True))
    epochs = EpochFile(RealDisk(str(root)))
    epochs.append(1, 0)
    epochs.append(2, store.pointers.appended)
    store.limit_confirm(store.pointers.appended)
    fill(store, 20, 2)
    store.close(WALL)
    return root


def rows(root: Path, **given: str) -> list[dict[str, Any]]:
    options = parse_log_options({"path": str(root), **given})
    maker = RowMaker(options)
    found: list[dict[str, Any]] = []
    for split in plan(find_replicas(options), options):
        for batch in maker.split(split):
            assert batch.schema == maker.schema
            found += batch.to_pylist()
    return found


def test_rows_are_the_records_with_their_place(root: Path) -> None:
    found = rows(root, toOffset="end")
    with StoreDirectory(root) as replica:
        places = list(replica.records(0, replica.end))
        spans = replica.epochs
        confirmed = replica.confirmed
        assert confirmed is not None
        for row, (offset, size) in zip(found, places, strict=True):
            message = decode(replica.raw(offset, offset + size))
            file = replica.file_at(offset)
            assert file is not None
            assert (row["topic"], row["queueId"], row["body"]) == (
                message.topic,
                message.queue_id,
                message.body,
            )
            assert row["commitLogOffset"] == offset
            assert row["epoch"] == next(e for e, low, high in spans if low <= offset < high)
            assert row["confirmed"] == (offset < confirmed)
            assert (row["file"], row["replica"]) == (file.path, str(root))
            assert (row["cut"], row["brokerName"]) == (False, str(root))
    assert {row["epoch"] for row in found} == {1, 2}
    assert {row["confirmed"] for row in found} == {True, False}


def test_topics_and_columns_are_chosen(root: Path) -> None:
    found = rows(root, topic="T1, T2", columns="epoch,body", toOffset="end")
    both = [row for row in rows(root, toOffset="end") if row["topic"] in ("T1", "T2")]
    assert found == [{"epoch": row["epoch"], "body": row["body"]} for row in both]
    assert rows(root, topic="nobody") == []
    assert rows(root, columns="file")[0].keys() == {"file"}
    assert rows(root, brokerName="b", columns="brokerName")[0] == {"brokerName": "b"}


@pytest.mark.parametrize(("low", "high"), [(1, 7000), (5000, 5001), (12_000, 1 << 40)])
def test_rows_begin_within_the_bounds(root: Path, low: int, high: int) -> None:
    bounds = {"fromOffset": str(low), "toOffset": str(high)}
    found = rows(root, columns="commitLogOffset", **bounds)
    everything = rows(root, columns="commitLogOffset", toOffset="end")
    assert found == [row for row in everything if low <= row["commitLogOffset"] < high]


def test_the_schema_is_sparks_and_arrows(root: Path) -> None:
    options = parse_log_options({"path": "/x", "onCorrupt": "report", "properties": "raw"})
    text = ddl(options)
    assert text.startswith("topic string, queueId int")
    assert "properties string" in text
    assert text.endswith("confirmed boolean, damage struct<start:bigint,end:bigint,why:string>")
    assert arrow_schema(options).names == [part.split()[0] for part in text.split(", ")]
    plain = parse_log_options({"path": "/x", "properties": "none"})
    assert "damage" not in ddl(plain)
    assert "properties" not in ddl(plain)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("bodyy", "there is no column 'bodyy' .did you mean 'body'"),
        ("epoch,epoch", "asked for twice"),
        ("damage", "there is no column 'damage'"),
    ],
)
def test_a_wrong_column_is_named(columns: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ddl(parse_log_options({"path": "/x", "columns": columns}))


def test_a_schema_of_the_users_chooses_columns() -> None:
    options = parse_log_options({"path": "/x"})
    assert only(arrow_schema(options).names, options) is options
    assert arrow_schema(only(["body", "cut"], options)).names == ["body", "cut"]
    with pytest.raises(UsageError, match="there is no column 'bod'"):
        only(["bod"], options)
    reporting = parse_log_options({"path": "/x", "onCorrupt": "report"})
    with pytest.raises(UsageError, match="needs the column damage"):
        only(["body"], reporting)


def split_of(path: Path, data: bytes, base: int) -> LogSplit:
    path.write_bytes(data)
    file = LogFile(str(path), base, len(data), len(data))
    return LogSplit("r", file, base, file.end, 0, 1 << 60, (), None)


def read(split: LogSplit, **given: str) -> list[dict[str, Any]]:
    maker = RowMaker(parse_log_options({"path": "/x", **given}))
    batches: list[pa.RecordBatch] = list(maker.split(split))
    return [row for batch in batches for row in batch.to_pylist()]


def test_damage_fails_is_passed_over_or_is_a_row(tmp_path: Path) -> None:
    log = image(20, 2)
    offset, size = log.records[7]
    log.data[offset - log.base + 1] ^= 64
    split = split_of(tmp_path / "log", bytes(log.data), log.base)
    with pytest.raises(StoreDamaged, match=f"log: {size} bytes at log offset {offset} .*report"):
        read(split)
    sound = [at for at, _ in log.records if at != offset]
    assert [row["commitLogOffset"] for row in read(split, onCorrupt="skip")] == sound
    reported = read(split, onCorrupt="report")
    assert [row["commitLogOffset"] for row in reported if not row["damage"]] == sound
    (row,) = [row for row in reported if row["damage"]]
    assert (row["damage"]["start"], row["damage"]["end"]) == (offset, offset + size)
    assert (row["file"], row["replica"], row["topic"]) == (split.file.path, "r", None)
    assert reported.index(row) == 7


def test_a_body_that_cannot_be_inflated_is_damage_of_its_own(tmp_path: Path) -> None:
    parts: list[bytes] = []
    for number in range(9):
        flag = COMPRESSED | COMPRESSION_ZSTD if number in (0, 4, 5) else 0
        at = sum(map(len, parts))
        parts.append(
            encode(
                b"T",
                b"no zstd %d" % number,
                b"",
                0,
                0,
                number,
                at,
                flag,
                WALL,
                HOST,
                WALL,
                HOST,
                0,
                0,
            )
        )
    split = split_of(tmp_path / "log", b"".join(parts), 0)
    with pytest.raises(StoreDamaged, match="at log offset 0 "):
        read(split)
    found = read(split, onCorrupt="report")
    assert [row["queueOffset"] for row in found] == [None, 1, 2, 3, None, None, 6, 7, 8]
    raw = read(split, decompress="false")
    assert [row["queueOffset"] for row in raw] == list(range(9))


def test_rows_of_what_was_cut_say_so(tmp_path: Path) -> None:
    log = image(5, 3)
    split = split_of(tmp_path / "7-1048576.log", bytes(log.data[: log.filler - log.base]), log.base)
    cut = replace(split, file=replace(split.file, cut=True, epoch=7), confirmed=10**9)
    found = read(cut, columns="epoch,cut,confirmed")
    assert found == [{"epoch": 7, "cut": True, "confirmed": None}] * 5


def test_without_epochs_the_column_is_empty(tmp_path: Path) -> None:
    log = image(3, 3)
    split = split_of(tmp_path / "log", bytes(log.data), log.base)
    assert [row["epoch"] for row in read(split)] == [None] * 3
    later = replace(split, epochs=((4, log.records[1][0], 1 << 40),))
    assert [row["epoch"] for row in read(later)] == [None, 4, 4]
