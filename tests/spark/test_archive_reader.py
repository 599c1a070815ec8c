"""Messages of an archive by queue offset: in order, each once, whatever the files are."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.spark.jobs.damage import archived
from tests.spark.jobs.lake import BROKER, FORMATS, START_MS, FakeCluster, archive, topic

from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.archive_reader import ArchiveReader
from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.spark.options import ArchiveAddress
from epochmq.tables.opening import open_table

NAMES = ("body", "queueOffset", "tags", "properties", "msgId")


def queue(number: int = 0) -> MessageQueue:
    return MessageQueue("T", BROKER, number)


def reader(place: Path, **more: bool) -> ArchiveReader:
    return ArchiveReader(ArchiveAddress(str(place)), **more)


def ids(source: ArchiveReader, number: int, start: int, stop: int) -> list[str]:
    found = source.batches(queue(number), start, stop, NAMES, row_count=3)
    return [each for batch in found for each in batch.column("msgId").to_pylist()]


@pytest.mark.parametrize("compact", [False, True], ids=["batches", "compacted"])
@pytest.mark.parametrize("format", FORMATS)
def test_any_range_is_read_in_order(tmp_path: Path, format: str, compact: bool) -> None:
    archived(tmp_path, format, compact=compact, count=30)
    source, rng = reader(tmp_path), random.Random(3)
    assert source.bounds() == {queue(0): (0, 36), queue(1): (0, 36)}
    for _ in range(100):
        number, start = rng.randrange(2), rng.randrange(37)
        stop = rng.randrange(start, 40)
        wanted = [f"T-{number}-{at}" for at in range(start, min(stop, 36))]
        assert ids(source, number, start, stop) == wanted


def test_an_archive_that_grows_and_is_compacted_while_it_is_read(tmp_path: Path) -> None:
    made = topic(count=8)
    cluster = FakeCluster(made)
    options = ArchiveOptions("", ("T",), str(tmp_path), "parquet", max_rows=4)
    archive(options, cluster)
    source = reader(tmp_path)
    batches = source.batches(queue(), 0, 8, ("queueOffset",), row_count=1)
    seen = [next(batches).column("queueOffset")[0].as_py() for _ in range(3)]
    table = open_table(str(tmp_path))
    table.compact()
    table.vacuum(0)
    seen += [batch.column("queueOffset")[0].as_py() for batch in batches]
    assert seen == list(range(8))
    made.add(4)
    archive(options, cluster)
    assert ids(source, 1, 6, 12) == [f"T-1-{at}" for at in range(6, 12)]


def test_the_begin_is_that_of_the_archive_or_of_its_rows(tmp_path: Path) -> None:
    made = topic(count=9)
    made.low = [4, 0]
    options = ArchiveOptions("", ("T",), str(tmp_path), "delta")
    archive(options, FakeCluster(made))
    assert reader(tmp_path).bounds() == {queue(0): (4, 9), queue(1): (0, 9)}
    table = open_table(str(tmp_path))
    assert table.mark is not None
    table.claim(table.mark.app, table.mark.offsets)  # without the begins, as older versions did
    source = reader(tmp_path)
    assert source.mark.begin == {}
    assert source.bounds() == {queue(0): (4, 9), queue(1): (0, 9)}
    made.queues.append([])
    made.low.append(0)
    archive(options, FakeCluster(made))
    assert reader(tmp_path).mark.begin == {"T": {f"{BROKER}:2": 0}}
    assert reader(tmp_path).bounds()[queue(2)] == (0, 0)


def test_times(tmp_path: Path) -> None:
    made = topic(count=5)
    made.add(5, at_ms=START_MS + 1000)
    archive(ArchiveOptions("", ("T",), str(tmp_path), "parquet"), FakeCluster(made))
    source = reader(tmp_path)
    times = {queue(0): START_MS, queue(1): START_MS + 1}
    assert source.offsets_at(times) == {queue(0): 0, queue(1): 5}
    assert source.offsets_at({queue(0): START_MS + 1001}) == {}


def test_columns_that_the_archive_does_not_have(tmp_path: Path) -> None:
    options = ArchiveOptions("", ("T",), str(tmp_path), "parquet", columns=("body",))
    archive(options, FakeCluster(topic(count=2)))
    source = reader(tmp_path)
    source.check(("body", "queueOffset"), "map")
    with pytest.raises(UsageError, match="has no column tags"):
        source.check(("tags",), "map")
    other = ArchiveOptions("", ("T",), str(tmp_path / "raw"), "parquet", properties="raw")
    archive(other, FakeCluster(topic(count=2)))
    with pytest.raises(UsageError, match="has properties=raw, and the query wants map"):
        reader(tmp_path / "raw").check(("properties",), "map")


def test_a_body_that_is_not_the_brokers_is_not_returned(tmp_path: Path) -> None:
    archive(ArchiveOptions("", ("T",), str(tmp_path), "parquet"), FakeCluster(topic(count=4)))
    table = open_table(str(tmp_path))
    file = table.data_files()[0]
    path = tmp_path / file.path
    rows = pq.read_table(path, partitioning=None)
    at = rows.schema.get_field_index("body")
    bodies = [b"changed", *rows.column("body").to_pylist()[1:]]
    pq.write_table(rows.set_column(at, rows.schema.field(at), [bodies]), path)
    number = rows.column("queueId")[0].as_py()
    table.record_digests([replace(file, bytes=path.stat().st_size, sha256="")])
    with pytest.raises(StoreDamaged, match="does not fit bodyCRC"):
        ids(reader(tmp_path), number, 0, 4)
    assert len(ids(reader(tmp_path, check_crc=False), number, 0, 4)) == 4
