"""One partition into a real broker, and through the death and return of that broker."""

import asyncio
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.client.aio.collecting import Collector
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.sinking import batches, bodies, messages, options

from epochmq.base.errors import EpochError, NotReachable, Refused, UsageError
from epochmq.client.aio import Admin, PushConsumer
from epochmq.model.message import StoredMessage
from epochmq.model.sink_mark import SINK_ID
from epochmq.model.topic import PERM_READ, TopicConfig
from epochmq.spark.sink_queues import PartitionId
from epochmq.spark.sink_task import write_partition

IDENTITY = PartitionId("test", 0, 0)
MAP = pa.map_(pa.string(), pa.string())


@pytest.fixture
def namesrv(cluster: EpochCluster) -> str:
    return cluster.namesrv_addr


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("guarantee", ["effectively-once", "at-least-once"])
def test_every_row_is_held_once(namesrv: str, topic: str, size: int, guarantee: str) -> None:
    wanted = [b"%03d" % number for number in range(50)]
    chosen = options(namesrv, topic, batchSize=size, guarantee=guarantee)
    done = write_partition(chosen, IDENTITY, iter(batches({"body": wanted})))
    assert (done.rows, done.body_bytes) == (50, 150)
    assert done.requests == (50 if size == 1 else 10)
    assert bodies(namesrv, topic) == wanted
    marked = guarantee == "effectively-once"
    assert {SINK_ID in message.properties for message in messages(namesrv, topic)} == {marked}


def test_a_key_keeps_queue_and_order_beside_rows_without_one(namesrv: str, topic: str) -> None:
    keys = ["a", None, "b", "c", None] * 20
    columns = {"body": [b"%03d" % n for n in range(100)], "orderingKey": keys}
    write_partition(options(namesrv, topic, batchSize=3), IDENTITY, iter(batches(columns)))
    found = messages(namesrv, topic)
    assert sorted(m.body for m in found) == columns["body"]
    for key in "abc":
        of_key = [m for m in found if m.properties.get("__SHARDINGKEY") == key]
        assert len({m.queue_id for m in of_key}) == 1
        assert [m.body for m in of_key] == sorted(m.body for m in of_key)


def test_properties_arrive_whole(namesrv: str, topic: str) -> None:
    columns = {
        "topic": [topic],
        "body": ["täxt"],
        "keys": ["k1 k2"],
        "tags": ["red"],
        "flag": [9],
        "properties": pa.array(
            [[("carrier", "AA"), ("x", "ü")]], pa.map_(pa.string(), pa.string())
        ),
    }
    write_partition(options(namesrv), IDENTITY, iter(batches(columns)))
    (message,) = messages(namesrv, topic)
    assert (message.plain_body(), message.tags, message.keys) == (
        "täxt".encode(),
        "red",
        ("k1", "k2"),
    )
    assert (message.properties["carrier"], message.properties["x"]) == ("AA", "ü")
    assert message.flag == 9


def test_rows_of_several_topics_and_delays(namesrv: str, topic: str) -> None:
    columns = {
        "topic": [topic, f"{topic}_2", topic, f"{topic}_2"],
        "body": [b"0", b"1", b"2", b"3"],
        "delayTimeLevel": [0, 0, 1, 0],
    }
    done = write_partition(options(namesrv), IDENTITY, iter(batches(columns)))
    assert done.rows == 4
    assert bodies(namesrv, f"{topic}_2") == [b"1", b"3"]
    found = []
    while len(found) < 2:  # the delayed one comes after a second, and is not a repeat then
        found = bodies(namesrv, topic)
    assert found == [b"0", b"2"]


def test_a_consumer_gets_properties_whole(namesrv: str, topic: str) -> None:
    columns = {
        "body": [b"%d" % n for n in range(40)],
        "keys": [f"k{n}" for n in range(40)],
        "tags": ["ab"[n % 2] for n in range(40)],
        "properties": pa.array([[("n", str(n)), ("x", "ü")] for n in range(40)], MAP),
    }
    write_partition(options(namesrv, topic, batchSize=9), IDENTITY, iter(batches(columns)))
    assert sorted(
        (int(m.body), m.keys, m.tags, m.properties["n"], m.properties["x"])
        for m in asyncio.run(consumed(namesrv, topic, 20))
    ) == [(n, (f"k{n}",), "b", str(n), "ü") for n in range(1, 40, 2)]


async def consumed(namesrv: str, topic: str, count: int) -> list[StoredMessage]:
    """What a group that wants tag "b" is given."""
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        seen = Collector(count)
        consumer.on_message(seen)
        await consumer.subscribe(topic, "b")
        await consumer.start()
        return await seen.wait()


def again(
    namesrv: str, topic: str, wanted: list[bytes], *, batch: int = 0, size: int = 5, **more: object
) -> None:
    """Write `wanted` as batch `batch` of one sink."""
    chosen = options(namesrv, topic, batchSize=size, **more)
    rows = iter(batches({"body": wanted}, rows=10))
    write_partition(chosen, PartitionId("again", batch, 0), rows)


@pytest.mark.parametrize("size", [1, 5])
def test_a_repeat_leaves_nothing_twice(namesrv: str, topic: str, size: int) -> None:
    wanted = [b"%03d" % number for number in range(60)]

    def half() -> Iterator[pa.RecordBatch]:
        yield from batches({"body": wanted[:30]}, rows=10)
        raise EpochError("the first try ends here")

    chosen = options(namesrv, topic, batchSize=size, bufferBytes=20)
    with pytest.raises(EpochError, match="first try"):
        write_partition(chosen, PartitionId("again", 0, 0), half())
    assert messages(namesrv, topic)
    for _ in range(2):
        again(namesrv, topic, wanted, size=size, bufferBytes=20)
    assert bodies(namesrv, topic) == wanted
    again(namesrv, topic, wanted, batch=1, size=size)
    assert bodies(namesrv, topic) == sorted([*wanted, *wanted])


def test_a_repeat_with_other_rows_loses_none(namesrv: str, topic: str) -> None:
    wanted = [b"%03d" % number for number in range(60)]
    again(namesrv, topic, wanted, batch=4)
    changed = [*wanted[:20], *reversed(wanted[20:])]
    again(namesrv, topic, changed, batch=4)
    assert bodies(namesrv, topic) == sorted([*wanted, *wanted])
    for rows in (wanted, changed):
        again(namesrv, topic, rows, batch=4)
    assert bodies(namesrv, topic) == sorted([*wanted, *wanted])
    again(namesrv, topic, wanted, batch=4, guarantee="at-least-once")
    assert bodies(namesrv, topic) == sorted([*wanted, *wanted, *wanted])


def test_rows_can_be_sorted_first(namesrv: str, topic: str) -> None:
    columns = {"body": [b"3", b"1", b"2"], "queueId": [0, 0, 0]}
    chosen = options(namesrv, topic, orderBy="queueId,body")
    write_partition(chosen, IDENTITY, iter(batches(columns, rows=2)))
    assert [m.body for m in messages(namesrv, topic)] == [b"1", b"2", b"3"]
    with pytest.raises(UsageError, match="no column 'nobody'"):
        write_partition(options(namesrv, topic, orderBy="nobody"), IDENTITY, iter(batches(columns)))
    chosen = options(namesrv, topic, orderBy="body", orderByBytes=4)
    with pytest.raises(UsageError, match="more than orderByBytes = 4"):
        write_partition(chosen, IDENTITY, iter(batches(columns)))


def test_little_room_ends_requests_early(namesrv: str, topic: str) -> None:
    wanted = [b"%03d" % n * 100 for n in range(40)]
    chosen = options(namesrv, topic, bufferBytes=1_000, batchBytes=5_000)
    done = write_partition(chosen, IDENTITY, iter(batches({"body": wanted})))
    assert done.requests >= 10
    assert bodies(namesrv, topic) == wanted


def test_no_rows_are_no_requests(namesrv: str, topic: str) -> None:
    assert write_partition(options(namesrv, topic), IDENTITY, iter([])).requests == 0


def test_a_refusal_names_the_rows(namesrv: str, topic: str) -> None:
    columns = {"body": [b"x"], "deliverTime": [99_999_999_999_999]}
    with pytest.raises(Refused, match=f"row 0 of partition 0 for topic {topic}: .*timer"):
        write_partition(options(namesrv, topic), IDENTITY, iter(batches(columns)))


@pytest.mark.parametrize("level", [19, 99, 128, -1])
def test_a_level_that_brokers_do_not_have_is_refused(namesrv: str, topic: str, level: int) -> None:
    """Brokers deliver after their longest level instead, and say nothing."""
    columns = {"body": [b"x"], "delayTimeLevel": [level]}
    with pytest.raises(UsageError, match=r"row 0 .* outside of 0 to 18; .*'delayLevels'"):
        write_partition(options(namesrv, topic), IDENTITY, iter(batches(columns)))
    if 0 < level < 100:
        chosen = options(namesrv, topic, delayLevels=99)
        assert write_partition(chosen, IDENTITY, iter(batches(columns))).rows == 1


def test_a_topic_that_is_not_there_is_created_only_if_that_is_wanted(namesrv: str) -> None:
    columns = {"body": [b"x"]}
    chosen = options(namesrv, "Spark_misspelt", createTopics="false")
    with pytest.raises(UsageError, match="Spark_misspelt is not there, and createTopics=false"):
        write_partition(chosen, IDENTITY, iter(batches(columns)))
    with pytest.raises(UsageError):  # the refusal has created nothing
        write_partition(chosen, IDENTITY, iter(batches(columns)))
    assert write_partition(options(namesrv, "Spark_new"), IDENTITY, iter(batches(columns))).rows


def test_a_topic_without_the_permission_ends_at_once_and_says_so(namesrv: str, topic: str) -> None:
    async def make_readable_only() -> None:
        async with Admin(namesrv) as admin:
            await admin.create_topic(TopicConfig(topic, 2, 2, PERM_READ))

    asyncio.run(make_readable_only())
    chosen = options(namesrv, topic, failoverTimeoutMs=600_000)  # so long the test would hang
    with pytest.raises(UsageError, match="may not be written: its permission is R--"):
        write_partition(chosen, IDENTITY, iter(batches({"body": [b"x"]})))


def test_nobody_there_is_one_clear_error_after_the_time_given(topic: str) -> None:
    chosen = options("127.0.0.1:1", topic, failoverTimeoutMs=300)
    with pytest.raises(NotReachable, match="no name server answers"):
        write_partition(chosen, IDENTITY, iter(batches({"body": [b"x"]})))


def test_an_error_of_the_rows_source_comes_through(namesrv: str, topic: str) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches({"body": [b"x"]})
        raise EpochError("the rows end here")

    with pytest.raises(EpochError, match="the rows end here"):
        write_partition(options(namesrv, topic), IDENTITY, broken())


def test_a_broker_that_dies_and_comes_back_has_every_row_once() -> None:
    wanted = [b"%05d" % number for number in range(4_000)]
    with EpochCluster(broker_config={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        half = threading.Event()
        back = threading.Thread(target=lambda: (half.wait(30), cluster.start_broker()))
        back.start()

        def rows() -> Iterator[pa.RecordBatch]:
            for at, batch in enumerate(batches({"body": wanted}, rows=100)):
                if at == 20:
                    cluster.kill9_broker()
                    half.set()
                yield batch

        chosen = options(cluster.namesrv_addr, "Dies", batchSize=20)
        write_partition(chosen, IDENTITY, rows())
        back.join()
        assert bodies(cluster.namesrv_addr, "Dies") == wanted
