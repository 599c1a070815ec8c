"""A source with an archive reads from its first message, while brokers delete theirs."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until
from tests.spark import topics
from tests.tiers import choose

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.archived_cluster import ArchivedCluster
from epochmq.spark.jobs.archive import NO_SPARK, ArchiveOptions, run_archive
from epochmq.spark.options import SourceOptions, parse_source
from epochmq.spark.plan import QueueRange
from epochmq.spark.retry import DataLost
from epochmq.spark.rows import batches, close_clusters, cluster_of
from epochmq.spark.stream_plan import Limits, StreamPlanner

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
TOPIC = "archived_orders"
BODY = 6_000
BORDERS = choose(sample=100, soak=1_000)


@dataclass
class Lake:
    """A topic whose log files are small, and its archive."""

    cluster: EpochCluster
    table: str
    queues: list[MessageQueue]
    counts: dict[MessageQueue, int] = field(default_factory=dict)

    def send(self, count: int) -> None:
        """`count` messages to each queue, whose bodies tell queue and offset."""
        namesrv = self.cluster.namesrv_addr
        for queue in self.queues:
            first = self.counts.get(queue, 0)
            numbers = range(first, first + count)
            bodies = [b"%d-%d-" % (queue.queue_id, n) + b"x" * BODY for n in numbers]
            topics.send_batches(
                namesrv, queue, [bodies[at : at + 10] for at in range(0, count, 10)]
            )
            self.counts[queue] = first + count

    def archive(self) -> None:
        options = ArchiveOptions(self.cluster.namesrv_addr, (TOPIC,), self.table, "parquet")
        run_archive(options, master=NO_SPARK)

    def expire(self, files: int) -> None:
        """Retention deletes the oldest log files of the broker."""
        logs = sorted((self.cluster.store / "commitlog").iterdir())
        gone = logs[: max(0, min(files, len(logs) - 2))]  # one is written, one is ready
        old = time.time() - 100 * 3600

        def are_deleted() -> bool:
            """Make the files old again: a sync of the broker renews their times."""
            for path in gone:
                with suppress(FileNotFoundError):
                    os.utime(path, (old, old))
            return not any(path.exists() for path in gone)

        wait_until(are_deleted, 30, "files are deleted")

    def options(self, **given: str) -> SourceOptions:
        return parse_source(
            {
                "nameServer": self.cluster.namesrv_addr,
                "subscribe": TOPIC,
                "archive": self.table,
                "startingOffsets": "earliest",
                "failoverTimeoutMs": "2s",
                **given,
            }
        )


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    config = {
        "mappedFileSizeCommitLog": 262_144,
        "maxMessageSize": 65_536,
        "cleanResourceInterval": 100,
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    }
    with EpochCluster(broker_config=config) as cluster:
        queues = topics.create(cluster.namesrv_addr, TOPIC, 2)
        yield Lake(cluster, str(tmp_path / "table"), queues)
        close_clusters()


def numbers(options: SourceOptions, span: QueueRange) -> list[int]:
    """The queue offsets of the rows, by their bodies and by the column."""
    found = pa.Table.from_batches(list(batches(options, ("body", "queueOffset"), span)))
    by_body = [int(body.split(b"-")[1]) for body in found["body"].to_pylist()]
    assert by_body == found["queueOffset"].to_pylist()
    return by_body


def test_every_border_between_archive_and_log(lake: Lake) -> None:
    """While retention deletes files, each range has each row once."""
    lake.send(200)
    lake.archive()
    options, rng = lake.options(rowsPerBatch="7", maxBytesPerRead="40k"), random.Random(7)
    lows = set()
    for attempt in range(BORDERS):
        if attempt % 12 == 5:
            lake.expire(2)
        if attempt % 25 == 20:
            lake.send(20)
            lake.archive()
        queue = rng.choice(lake.queues)
        end = lake.counts[queue]
        start = rng.randrange(end)
        stop = rng.randrange(start, end) + 1
        assert numbers(options, QueueRange(queue, start, stop)) == list(range(start, stop))
        cluster = cluster_of(options)
        assert isinstance(cluster, ArchivedCluster)
        assert cluster.bounds(TOPIC)[queue] == (0, end)
        lows.add(cluster.first_at_brokers(queue))
    assert len(lows) > 4, "retention went on"


def test_files_that_are_deleted_while_a_task_reads(lake: Lake) -> None:
    lake.send(200)
    lake.archive()
    options = lake.options(rowsPerBatch="5", maxBytesPerRead="40k")
    queue = lake.queues[0]
    found: list[int] = []
    for batch in batches(options, ("queueOffset",), QueueRange(queue, 0, 200)):
        found += batch.column("queueOffset").to_pylist()
        if len(found) in (20, 60, 100):
            lake.expire(5)
    assert found == list(range(200))


def test_a_stream_begins_at_the_archive_and_goes_on_behind_it(lake: Lake) -> None:
    lake.send(100)
    lake.archive()
    lake.expire(5)
    lake.send(40)
    options = lake.options()
    planner = StreamPlanner(options, cluster_of(options))
    start = planner.initial()
    seen: dict[MessageQueue, list[int]] = {queue: [] for queue in lake.queues}
    for _ in range(8):
        end = planner.latest(start, Limits(rows=50))
        for span in planner.spans(start, end):
            seen[span.queue] += numbers(options, span)
        start = end
    assert seen == {queue: list(range(140)) for queue in lake.queues}
    planner.stop()


def test_what_neither_has_is_lost(lake: Lake) -> None:
    lake.send(60)
    lake.archive()
    lake.send(60)
    lake.expire(100)
    options = lake.options()
    queue = lake.queues[0]
    with pytest.raises(DataLost, match="queue offsets 60 to"):
        numbers(options, QueueRange(queue, 0, 120))
    forgiving = lake.options(failOnDataLoss="false")
    found = numbers(forgiving, QueueRange(queue, 0, 120))
    assert found[:60] == list(range(60))
    assert found[60:] == list(range(min(found[60:], default=120), 120))
    assert len(found) < 120
    tagged = lake.options(tags="none")
    assert list(batches(tagged, ("body",), QueueRange(queue, 0, 60))) == []


def test_times_before_the_log_are_found_in_the_archive(lake: Lake) -> None:
    lake.send(60)
    lake.archive()
    lake.expire(3)
    cluster = cluster_of(lake.options())
    cluster.bounds(TOPIC)
    assert cluster.offsets_at(dict.fromkeys(lake.queues, 1)) == dict.fromkeys(lake.queues, 0)
    later = round(time.time() * 1000) + 60_000
    assert cluster.offsets_at(dict.fromkeys(lake.queues, later)) == lake.counts


def test_an_archive_of_another_topic(lake: Lake) -> None:
    lake.send(20)
    lake.archive()
    topics.delete(lake.cluster.namesrv_addr, TOPIC)
    topics.create(lake.cluster.namesrv_addr, TOPIC, 2)
    with pytest.raises(UsageError, match="was deleted and created again since the archive"):
        cluster_of(lake.options()).bounds(TOPIC)


def test_options_that_do_not_fit() -> None:
    given = {"nameServer": "127.0.0.1:1", "subscribe": "T", "archive": "/x"}
    with pytest.raises(UsageError, match="decompress=false does not fit archive"):
        parse_source({**given, "decompress": "false"})
