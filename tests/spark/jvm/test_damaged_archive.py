"""Archives whose files have changed since they were written: no job passes a changed message on."""

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics
from tests.spark.sinking import messages

from epochmq.base.errors import StoreDamaged
from epochmq.client.aio import Producer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.archive import NO_SPARK, ArchiveOptions, run_archive
from epochmq.spark.jobs.compact import Compact, compact
from epochmq.spark.jobs.framework import translated
from epochmq.spark.jobs.replay import Replay, replay
from epochmq.tables.opening import data_frame, open_table

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
TOPIC, AGAIN = "damaged_orders", "damaged_again"
FLIPS = 16


@pytest.fixture(scope="module")
def namesrv(cluster: EpochCluster) -> str:
    async def fill() -> None:
        async with Producer(cluster.namesrv_addr) as producer:
            for number in range(60):
                message = Message(TOPIC, b"amount=%04d" % number * 9, "t", (f"k{number % 7}",))
                await producer.send(message, queue=MessageQueue(TOPIC, "broker-a", number % 2))

    for name in (TOPIC, AGAIN):
        topics.create(cluster.namesrv_addr, name, 2)
    asyncio.run(fill())
    return cluster.namesrv_addr


def archived(namesrv: str, place: Path, format: str) -> Path:
    """An archive of the topic; its data file."""
    options = ArchiveOptions(namesrv, (TOPIC,), str(place), format)
    assert run_archive(options, master=NO_SPARK).rows == 60
    (file,) = place.rglob("*.parquet")
    return file


def flips(file: Path, seed: int) -> Iterator[int]:
    """The file with one bit flipped, one after another."""
    sound, rng = file.read_bytes(), random.Random(seed)
    for _ in range(FLIPS):
        at = rng.randrange(8 * len(sound))
        changed = bytearray(sound)
        changed[at // 8] ^= 1 << at % 8
        file.write_bytes(changed)
        for crc in file.parent.glob(".*.crc"):
            crc.unlink()  # of Hadoop's local file system, which would hide what the table does
        yield at
    file.write_bytes(sound)


def refused(work: Callable[[], object]) -> None:
    with pytest.raises(StoreDamaged, match="damaged"), translated():
        work()


def test_a_changed_file_is_not_replayed(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    table = tmp_path / "table"
    file = archived(namesrv, table, "parquet")
    for at in flips(file, 1):
        job = Replay(str(table), AGAIN, namesrv, tmp_path / f"state-{at}")
        refused(lambda job=job: replay(spark, job))
        target = tmp_path / f"snapshot-{at}"
        refused(lambda target=target: compact(spark, Compact(str(target), TOPIC, str(table))))
    assert messages(namesrv, AGAIN) == []
    job = Replay(str(table), AGAIN, namesrv, tmp_path / "state")
    assert replay(spark, job).rows == 60, "the sound file is"
    assert len(messages(namesrv, AGAIN)) == 60


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_pages_are_checked_when_they_are_read(
    spark: SparkSession, namesrv: str, tmp_path: Path, format: str
) -> None:
    """What a query reads is what was written, or the query fails: no digest is asked here."""
    table = tmp_path / "table"
    file = archived(namesrv, table, format)
    wanted = sorted(map(repr, data_frame(spark, open_table(str(table))).collect()))
    failed = 0
    for at in flips(file, 2):
        try:
            found = data_frame(spark, open_table(str(table))).collect()
        except Exception:
            failed += 1
            continue
        assert sorted(map(repr, found)) == wanted, f"bit {at} changed a row in silence"
    assert failed > FLIPS // 3


def test_a_body_is_compared_with_the_checksum_of_its_broker(
    spark: SparkSession, namesrv: str, tmp_path: Path
) -> None:
    """A table of an older version: no digests, no checksums of pages, and a changed body."""
    table = tmp_path / "table"
    file = archived(namesrv, table, "delta")
    rows = pq.read_table(file)
    bodies = rows.column("body").to_pylist()
    bodies[7] = bodies[7].replace(b"0", b"4")
    at = rows.schema.get_field_index("body")
    changed = rows.set_column(at, rows.schema.field(at), [bodies])
    columns = [name for name in changed.column_names if name not in ("topic", "storeDate")]
    pq.write_table(changed.select(columns) if "topic" not in rows.column_names else changed, file)
    with suppress(FileNotFoundError):
        shutil.rmtree(tmp_path / "spark-warehouse")
    job = Replay(str(table), AGAIN, namesrv, tmp_path / "state")
    refused(lambda: replay(spark, job))
    assert not job.state.exists()
    refused(lambda: compact(spark, Compact(str(tmp_path / "to"), TOPIC, str(table))))
