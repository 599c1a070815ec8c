"""`format("rocketmq")` read by Spark itself: batch and streaming, from brokers that may die."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.group import Group, Server
from tests.compat.peers.java import JavaCluster
from tests.compat.peers.process import wait_until
from tests.spark import topics

from epochmq.model import record
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.spark import PublishOffsets, columns
from epochmq.spark.spark_cluster import Cluster

pytestmark = [pytest.mark.process]

Batches = list[tuple[int, list[int]]]


def read(spark: SparkSession, namesrv: str, topic: str, **options: object) -> DataFrame:
    given = {"nameServer": namesrv, "subscribe": topic, "failoverTimeoutMs": "30s", **options}
    return spark.read.format("rocketmq").options(**given).load()


class Stream:
    """A query that keeps the numbers of its rows, batch by batch; use as a context."""

    def __init__(
        self,
        spark: SparkSession,
        namesrv: str,
        topic: str,
        checkpoint: str,
        until_now: bool = True,
        before: Callable[[int], None] | None = None,
        **options: object,
    ) -> None:
        self.batches: Batches = []
        given = {"nameServer": namesrv, "subscribe": topic, "columns": "body,queueId", **options}
        rows = spark.readStream.format("rocketmq").options(**given).load()

        def keep(batch: DataFrame, number: int) -> None:
            if before is not None:
                before(number)
            self.batches.append((number, [int(row.body) for row in batch.collect()]))

        writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
        trigger = {"availableNow": True} if until_now else {"processingTime": "100 milliseconds"}
        self.query: StreamingQuery = writer.trigger(**trigger).start()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *error: object) -> None:
        self.query.stop()

    def finish(self) -> "Stream":
        assert self.query.awaitTermination(60), "the query does not end"
        return self

    def wait_for(self, count: int) -> None:
        """Until it has the first `count` numbers, each once, and goes on."""
        wait_until(
            lambda: len(self.numbers) >= count or not self.query.isActive, 90, f"{count} rows"
        )
        assert self.query.exception() is None
        assert self.numbers == list(range(count))

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, numbers in self.batches for number in numbers)


def stored(namesrv: str, topic: str) -> dict[tuple[int, int], StoredMessage]:
    """All messages of a topic by queue and offset, read without Spark."""
    with Cluster(namesrv) as view:
        return {
            (queue.queue_id, message.queue_offset): message
            for queue, (low, high) in view.bounds(topic).items()
            for chunk in view.read(queue, low, high)
            for message in record.decode_all(chunk.records)
        }


def stamp(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).replace(tzinfo=None)


def test_a_batch_has_every_column_of_every_message(
    spark: SparkSession, cluster: EpochCluster, topic: str
) -> None:
    namesrv = cluster.namesrv_addr
    first, second = topics.create(namesrv, topic)
    large = Message(topic, b"large " * 2_000, "big", ("a", "b"), {"n": "7", "text": "täxt"})
    sent = [(first, large), (second, Message(topic, b"bare"))]
    topics.send(namesrv, sent + [(first, topics.numbered(topic, n)) for n in range(20)])
    expected = stored(namesrv, topic)
    frame = read(spark, namesrv, topic)
    assert tuple(frame.columns) == columns.NAMES
    rows = frame.collect()
    assert {(row.queueId, row.queueOffset) for row in rows} == expected.keys()
    assert len(rows) == 22
    for row in rows:
        message = expected[row.queueId, row.queueOffset]
        assert row.topic == topic
        assert row.brokerName == first.broker_name
        assert bytes(row.body) == message.plain_body()
        assert row.properties == message.properties
        assert (row.tags, row.keys) == (message.tags, message.properties.get("KEYS"))
        assert row.bornTimestamp == stamp(message.born_wall_ms)
        assert row.storeTimestamp == stamp(message.store_wall_ms)
        assert row.bornHost == f"{message.born_host[0]}:{message.born_host[1]}"
        assert (row.commitLogOffset, row.sysFlag) == (message.offset, message.sys_flag)
        assert (row.bodyCRC, row.msgId) == (message.body_crc, message.msg_id)
        assert (row.flag, row.reconsumeTimes) == (0, 0)

    by_tag = read(spark, namesrv, topic, tags="odd", columns="body", minPartitions=7)
    odd = sorted(n for n in range(20) if n // 2 % 2)
    assert sorted(int(row.body) for row in by_tag.collect()) == odd
    split = read(spark, namesrv, topic, columns="queueOffset,queueId", maxRecordsPerPartition=4)
    assert split.rdd.getNumPartitions() == 7
    assert split.where("queueId = 0").count() == 21
    pushed = read(spark, namesrv, topic).where(
        "queueId = 0 and queueOffset >= 15 and storeTimestamp > timestamp'2020-01-01'"
    )
    assert sorted(row.queueOffset for row in pushed.collect()) == [15, 16, 17, 18, 19, 20]
    assert pushed.rdd.getNumPartitions() == 1
    for condition in ("tags = 'odd'", "tags in ('odd', 'none')", "tags = 'odd' and tags = 'even'"):
        whole = read(spark, namesrv, topic, pushdown=False).where(condition)
        found = sorted((row.queueId, row.queueOffset) for row in whole.collect())
        assert bool(found) == ("even" not in condition)
        for setting in ("true", "false"):  # without it Spark applies all filters itself
            spark.conf.set("spark.sql.python.filterPushdown.enabled", setting)
            filtered = read(spark, namesrv, topic).where(condition)
            assert sorted((row.queueId, row.queueOffset) for row in filtered.collect()) == found
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for condition in ("keys = 'a b'", "keys in ('a b', 'k7')", "keys = 'a'", "keys = 'none'"):
        whole = read(spark, namesrv, topic, pushdown=False).where(condition)
        found = sorted((row.queueId, row.queueOffset) for row in whole.collect())
        assert len(found) == {"keys = 'a b'": 1, "keys in ('a b', 'k7')": 2}.get(condition, 0)
        filtered = read(spark, namesrv, topic).where(condition)
        assert sorted((row.queueId, row.queueOffset) for row in filtered.collect()) == found
    chosen = spark.read.format("rocketmq").schema("body binary, tags string")
    chosen = chosen.options(nameServer=namesrv, assign=f'{{"{topic}": ["{first.broker_name}:1"]}}')
    assert [tuple(row) for row in chosen.load().collect()] == [(bytearray(b"bare"), None)]


@pytest.fixture(scope="module")
def bad_read(cluster: EpochCluster) -> str:
    topics.fill(cluster.namesrv_addr, "BadRead", 4)
    return cluster.namesrv_addr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOfsets": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"startingOffsets": "latest"}, "begins at latest is empty"),
        ({"subscribe": "NoSuchTopic"}, "topic NoSuchTopic is not there"),
        ({"startingOffsets": '{"BadRead": {"0": 500}}'}, "but it ends at 2"),
        ({"endingOffsets": '{"BadRead": {"0": 500}}'}, "ends at queue offset 2"),
        ({"startingOffsets": '{"BadRead": {"9": 0}}'}, "has no queue 9"),
        ({"columns": "body,quueId"}, "did you mean 'queueId'?"),
        ({"nameServer": "127.0.0.1:1", "failoverTimeoutMs": "100"}, "connection refused"),
    ],
)
def test_bad_input_ends_in_one_clear_line(
    spark: SparkSession, bad_read: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=r"epochmq\.base\.errors") as raised:
        read(spark, bad_read, "BadRead", **options).count()
    assert says in str(raised.value)


def test_a_stream_reads_in_limits_and_publishes_where_it_is(
    spark: SparkSession, cluster: EpochCluster, topic: str, checkpoint: str
) -> None:
    namesrv = cluster.namesrv_addr
    queues = topics.fill(namesrv, topic, 100)
    options: dict[str, Any] = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 40,
        "groupId": "stream-read",
    }
    listener = PublishOffsets(namesrv, "stream-listener")
    spark.streams.addListener(listener)
    with Stream(spark, namesrv, topic, checkpoint, **options) as first:
        first.finish()
    assert [len(numbers) for _, numbers in first.batches] == [40, 40, 20]
    assert first.numbers == list(range(100))
    progress = first.query.lastProgress
    assert progress is not None
    assert '"total": 0' in str(progress["sources"][0]["latestOffset"]).replace("'", '"')

    topics.create(namesrv, topic, 3)  # a queue is added, and read from its begin
    added = MessageQueue(topic, queues[0].broker_name, 2)
    topics.send(namesrv, [(added, topics.numbered(topic, n)) for n in range(100, 110)])
    with Stream(spark, namesrv, topic, checkpoint, **options) as second:
        second.finish()
    assert second.numbers == list(range(100, 110))
    with Cluster(namesrv) as view:
        for group in ("stream-read", "stream-listener"):
            wait_until(
                lambda group=group: (
                    view.committed_all(group, [*queues, added])
                    == {queues[0]: 50, queues[1]: 50, added: 10}
                ),
                20,
                f"offsets of {group} published",
            )
    spark.streams.removeListener(listener)
    listener.close()

    refusal = r"(?s)created\s+again|This\s+query\s+read\s+it\s+before"
    with Stream(
        spark, namesrv, topic, checkpoint, until_now=False, failoverTimeoutMs="1s", **options
    ) as third:
        topics.send(namesrv, [(added, topics.numbered(topic, n)) for n in range(110, 115)])
        wait_until(lambda: len(third.numbers) == 5, 60, "the query under way")
        topics.delete(namesrv, topic)
        topics.fill(namesrv, topic, 10, 3)
        with pytest.raises(Exception, match=refusal):
            third.finish()
    assert third.numbers == list(range(110, 115))
    options |= {"failOnDataLoss": False, "failoverTimeoutMs": "1s"}
    with Stream(spark, namesrv, topic, checkpoint, **options) as fourth:
        fourth.finish()
    assert fourth.numbers == list(range(10))


def test_the_start_survives_a_first_batch_that_fails(
    spark: SparkSession, cluster: EpochCluster, topic: str, checkpoint: str
) -> None:
    """Without the start in the checkpoint 50 rows a queue were lost."""
    namesrv = cluster.namesrv_addr
    queues = topics.fill(namesrv, topic, 10)
    failing = {"yes": False}

    def fail(number: int) -> None:
        if failing["yes"]:
            raise RuntimeError("on purpose")

    # The empty batch 0 is done at once and holds the start; then batch 0 of another query fails.
    with Stream(spark, namesrv, topic, checkpoint, startingOffsets="latest") as idle:
        idle.finish()
    topics.send(namesrv, [(queues[0], topics.numbered(topic, n)) for n in range(10, 15)])
    with Stream(spark, namesrv, topic, checkpoint, startingOffsets="latest") as later:
        later.finish()
    assert later.numbers == [10, 11, 12, 13, 14]

    failing["yes"] = True
    other = f"{checkpoint}-other"
    with (
        Stream(spark, namesrv, topic, other, before=fail, startingOffsets="latest") as failed,
        pytest.raises(Exception, match="on purpose"),
    ):
        failed.finish()
    topics.send(namesrv, [(queues[1], topics.numbered(topic, n)) for n in range(20, 30)])
    failing["yes"] = False
    with Stream(spark, namesrv, topic, other, startingOffsets="latest") as restarted:
        restarted.finish()
    assert restarted.numbers == list(range(20, 30))


def test_a_java_broker_is_read_by_pulls(spark: SparkSession, tmp_path: Path) -> None:
    try:
        peer = JavaCluster()
    except UnavailableError as missing:
        pytest.skip(f"RocketMQ's broker cannot be had: {missing}")
    with peer as java:
        namesrv = java.namesrv_addr
        topics.fill(namesrv, "JavaRead", 150)
        rows = read(spark, namesrv, "JavaRead", maxRecordsPerPartition=50).collect()
        assert sorted(int(row.body) for row in rows) == list(range(150))
        odd = read(spark, namesrv, "JavaRead", tags="odd", columns="body").collect()
        assert sorted(int(row.body) for row in odd) == [n for n in range(150) if n // 2 % 2]
        with Stream(
            spark,
            namesrv,
            "JavaRead",
            str(tmp_path / "java"),
            startingTimestamp=1,
            groupId="spark-on-java",
        ) as stream:
            stream.finish()
        assert stream.numbers == list(range(150))
        with Cluster(namesrv) as view:
            queues = view.queues("JavaRead")
            wait_until(
                lambda: set(view.committed_all("spark-on-java", queues).values()) == {75},
                20,
                "the group's offsets at the Java broker",
            )


@pytest.fixture
def group() -> Iterator[Group]:
    # The set of replicas must not shrink while they are paused: then the tail would count.
    with Group(broker_config={"minInSyncReplicas": 2, "haMaxTimeSlaveNotCatchup": 600_000}) as run:
        yield run


def test_no_unconfirmed_message_is_read_and_a_failover_is_survived(
    spark: SparkSession, group: Group, checkpoint: str, request: pytest.FixtureRequest
) -> None:
    """INV-20: a master has an unreplicated tail, Spark reads, the master dies, the tail is cut.

    Behind it the same query meets a queue that is added.
    """
    namesrv, topic = group.namesrv_addr, "Failover"
    queues = topics.fill(namesrv, topic, 40)
    master = group.master()
    assert master is not None
    followers = [broker for broker in group.brokers if broker is not master]
    with Stream(
        spark, namesrv, topic, checkpoint, until_now=False, startingOffsets="earliest"
    ) as stream:
        wait_until(lambda: len(stream.numbers) == 40, 180, "the first rows")
        signal_all(followers, signal.SIGSTOP)
        with suppress(Exception):  # nobody acknowledges it: that is the point
            topics.send(namesrv, [(queues[0], Message(topic, b"-1", keys=("TAIL-MARK",)))], 2_500)
        wait_for_tail(master, "commitlog")
        seen = read(spark, namesrv, topic, columns="body").collect()
        assert sorted(int(row.body) for row in seen) == list(range(40))
        assert stream.query.isActive
        assert stream.numbers == list(range(40))

        for broker in (master, *followers):  # with what the followers' sockets hold unread
            broker.process.kill9()
        for broker in followers:
            broker.start()
        group.wait_ready()
        assert group.master() in followers
        topics.create(namesrv, topic, 3)  # mid-stream; routes are asked again within 30 s
        request.getfixturevalue("demo")  # which others have the result of: here is time for it
        topics.send(namesrv, [(queues[n % 2], topics.numbered(topic, n)) for n in range(40, 60)])
        stream.wait_for(60)
        added = MessageQueue(topic, queues[0].broker_name, 2)
        topics.send(namesrv, [(added, topics.numbered(topic, n)) for n in range(60, 65)])
        master.start()
        group.wait_ready()
        wait_for_tail(master, "cut")  # it was cut, and its bytes are kept
        again = read(spark, namesrv, topic, columns="body,queueId", readFrom="follower")
        found = again.where("queueId < 2").collect()
        assert sorted(int(row.body) for row in found) == list(range(60))
        stream.wait_for(65)


def signal_all(servers: list[Server], number: signal.Signals) -> None:
    for server in servers:
        os.kill(server.process.pid, number)


def wait_for_tail(server: Server, folder: str) -> None:
    """Wait until a file below this folder of the store has the tail's bytes."""

    def found() -> bool:
        files = [path for path in server.root.rglob("*") if folder in path.parts and path.is_file()]
        return any(b"TAIL-MARK" in path.read_bytes() for path in files)

    wait_until(found, 60, f"the tail in {folder}")
