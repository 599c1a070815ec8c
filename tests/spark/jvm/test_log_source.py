"""`format("rocketmq-log")` through a JVM: found by name, same rows as the files, clear errors."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compat.peers import admin as peer_admin
from tests.compat.peers.group import Group
from tests.store.replicas import fill
from tests.store.world import SMALL

from epochmq.runtime.disk import RealDisk
from epochmq.spark.log_files import StoreDirectory
from epochmq.store.epochs import EpochFile

from ..logs import WALL, snapshot, written

pyspark_sql = pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

pytestmark = pytest.mark.process

FORMAT = "rocketmq-log"
STORE = replace(SMALL, replicated=True, commit_log_file_bytes=1 << 16)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two replicas with epochs 1 and 2; truncation has kept something of the second one."""
    root = tmp_path_factory.mktemp("replicas")
    for name in ("a", "b"):
        store = written(root / name, 60, STORE)
        epochs = EpochFile(RealDisk(str(root / name)))
        epochs.append(1, 0)
        epochs.append(2, store.pointers.appended)
        fill(store, 30, 2)
        store.limit_confirm(store.pointers.appended)
        if name == "b":
            end = store.pointers.appended
            fill(store, 5, 3)
            store.truncate(end, "the master said so", epochs=epochs.entries)
        store.close(WALL)
    return root


@pytest.fixture(scope="module")
def damaged(root: Path) -> tuple[int, int]:
    """Where the second replica is damaged."""
    with StoreDirectory(root / "b") as replica:
        offset, size = list(replica.records(0, replica.end))[10]
        file = replica.file_at(offset)
        assert file is not None
    with open(file.path, "r+b") as log:
        log.seek(offset - file.start + 4)
        log.write(b"\0")
    return offset, size


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with Group(replicas=1) as running:
        master = running.master()
        assert master is not None
        peer_admin.create_topic(master.address, "learned", 1)
        for number in range(50):
            peer_admin.send(master.address, "learned", b"%d" % number)
        yield running


def read(spark: SparkSession, *paths: Path, **options: str) -> DataFrame:
    reader = spark.read.format(FORMAT).options(**options)
    frame = reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))
    assert isinstance(frame, DataFrame)
    return frame


def test_replicas_are_one_table_and_stay_as_they_are(spark: SparkSession, root: Path) -> None:
    before = snapshot(root / "a")
    frame = read(spark, root / "a")
    with StoreDirectory(root / "a") as replica:
        offsets = [offset for offset, _ in replica.records(0, replica.end)]
        spans = replica.epochs
    assert frame.columns[-5:] == ["epoch", "file", "replica", "cut", "confirmed"]
    rows = frame.select("commitLogOffset", "epoch", "confirmed", "topic").collect()
    assert [row.commitLogOffset for row in rows] == offsets
    assert {row.epoch for row in rows} == {1, 2}
    assert all(row.confirmed for row in rows)
    counts = dict(frame.groupBy("epoch").count().collect())
    assert counts[2] == sum(offset >= spans[1][1] for offset in offsets)
    assert snapshot(root / "a") == before


def test_damage_is_an_error_or_a_row(
    spark: SparkSession, root: Path, damaged: tuple[int, int]
) -> None:
    offset, size = damaged
    with pytest.raises(Exception, match=f"{size} bytes at log offset {offset} .*onCorrupt=skip"):
        read(spark, root / "b").collect()
    both = read(spark, root / "a", root / "b", onCorrupt="report", include="all")
    both.createOrReplaceTempView("log")
    (row,) = spark.sql(
        "select damage.start, damage.end, replica from log where damage is not null"
    ).collect()
    assert tuple(row) == (offset, offset + size, str(root / "b"))
    lost = spark.sql(
        f"""select a.commitLogOffset from log a left anti join
            (select * from log where replica = '{root / "b"}' and not cut and damage is null) b
            on a.commitLogOffset = b.commitLogOffset where a.replica = '{root / "a"}'"""
    ).collect()
    assert [each.commitLogOffset for each in lost] == [offset]
    cut = spark.sql("select epoch, count(*) from log where cut group by epoch").collect()
    assert [tuple(each) for each in cut] == [(2, 5)]


def test_columns_are_chosen_by_schema_or_option(spark: SparkSession, root: Path) -> None:
    by_schema = spark.read.format(FORMAT).schema("body binary, epoch int").load(str(root / "a"))
    by_option = read(spark, root / "a", columns="body,epoch", topic="T0,T1,T2")
    assert by_schema.collect() == by_option.collect()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"path": "/nowhere"}, "there is no directory /nowhere"),
        ({"path": "/tmp", "onCorrupt": "never"}, "must be one of fail, skip, report"),
        ({"path": "/tmp", "columns": "bdy"}, "did you mean 'body'"),
        ({}, "option 'path' is missing"),
    ],
)
def test_bad_options_are_told(spark: SparkSession, options: dict[str, str], why: str) -> None:
    with pytest.raises(Exception, match=why):
        spark.read.format(FORMAT).options(**options).load().collect()


def test_a_broker_is_read_as_a_learner(spark: SparkSession, group: Group) -> None:
    frame = spark.read.format(FORMAT).options(
        readFrom="learner", nameServer=group.namesrv_addr, topic="learned"
    )
    rows = frame.load().collect()
    assert [bytes(row.body) for row in rows] == [b"%d" % number for number in range(50)]
    assert {(row.brokerName, row.epoch, row.confirmed) for row in rows} == {("broker-a", 1, True)}
    with pytest.raises(Exception, match="there is no broker nobody; known to the name server"):
        frame.options(brokers="nobody").load().collect()
