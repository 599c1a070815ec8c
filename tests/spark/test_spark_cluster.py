"""The blocking view of a cluster, against a real one."""

import random
import threading
import time
from collections.abc import Iterator

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.base.errors import NotFound, NotReachable, UsageError
from epochmq.model import record
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.native.library import library
from epochmq.spark.range_read import RawChunk
from epochmq.spark.retry import DataLost, Lost
from epochmq.spark.spark_cluster import Cluster

pytestmark = pytest.mark.process


@pytest.fixture
def view(cluster: EpochCluster) -> Iterator[Cluster]:
    with Cluster(cluster.namesrv_addr, group="view", failover_timeout_ms=20_000) as connected:
        yield connected


def bodies(chunks: Iterator[RawChunk]) -> list[bytes]:
    return [m.plain_body() for chunk in chunks for m in record.decode_all(chunk.records)]


def test_a_range_is_read_exactly(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    first, second = topics.fill(cluster.namesrv_addr, topic, 60)
    assert topic in view.topics()
    assert view.queues(topic) == [first, second]
    assert view.bounds(topic) == {first: (0, 30), second: (0, 30)}
    assert view.bounds(topic, master=True) == view.bounds(topic)
    assert bodies(view.read(first, 3, 28)) == [b"%d" % n for n in range(6, 56, 2)]
    assert bodies(view.read(second, 29, 30, read_from="follower")) == [b"59"]
    assert bodies(view.read(first, 5, 5)) == []


def test_small_reads_give_the_same(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 60)
    chunks = list(view.read(queue, 0, 30, max_bytes=1_000))
    assert len(chunks) > 5
    assert bodies(iter(chunks)) == [b"%d" % n for n in range(0, 60, 2)]
    assert [chunk.max_offset for chunk in chunks] == [30] * len(chunks)
    assert chunks[-1].next_offset == 30


def test_bodies_may_be_left_out(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 60)
    (chunk,) = view.read(queue, 0, 30, bodies=False)
    found = record.decode_all(chunk.records)
    assert [message.queue_offset for message in found] == list(range(30))
    if library() is not None:
        assert {message.body for message in found} == {b""}


def test_tags_are_filtered_by_the_broker(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 60)
    odd = [b"%d" % n for n in range(0, 60, 2) if n // 2 % 2]
    assert bodies(view.read(queue, 0, 30, tags="odd || none")) == odd
    assert bodies(view.read(queue, 0, 30, tags="none")) == []


def test_pulls_give_the_same_as_bulk(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    """What other brokers are asked with, and those of ours that are older."""
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 200)
    view._reads._pull_only.add(cluster.broker_addr)
    assert bodies(view.read(queue, 1, 99)) == [b"%d" % n for n in range(2, 198, 2)]
    odd = [b"%d" % n for n in range(0, 160, 2) if n // 2 % 2]
    assert bodies(view.read(queue, 0, 80, tags="odd")) == odd
    with Cluster(cluster.namesrv_addr, failover_timeout_ms=300) as hasty:
        hasty._reads._pull_only.add(cluster.broker_addr)
        with pytest.raises(DataLost, match="queue offsets 120 to 129"):
            list(hasty.read(queue, 120, 130))


def test_offsets_by_time_and_of_groups(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    queue, other = topics.fill(cluster.namesrv_addr, topic, 10)
    second = record.decode_all(next(view.read(queue, 1, 2)).records)[0]
    assert view.offset_at(queue, 0) == 0
    assert view.offset_at(queue, second.store_wall_ms) <= 1
    assert view.offsets_at({queue: second.store_wall_ms + 60_000, other: 0}) == {queue: 5, other: 0}
    view.commit(None, queue, 3)
    assert view.committed(None, queue) == 3
    assert view.committed("another", queue) is None
    view.commit_soon("another", {other: 4}).result(10)
    assert view.committed_all("another", [queue, other]) == {other: 4}


def test_what_is_not_there(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    began = time.monotonic()
    with pytest.raises(NotFound, match=f"topic {topic} is not there"):
        view.bounds(topic)
    with pytest.raises(DataLost, match="the topic is not there any more"):
        list(view.read(MessageQueue(topic, "broker-a", 0), 0, 5))
    assert time.monotonic() - began < 5, "a wrong name is told at once"


def test_a_wrong_address_is_told_soon() -> None:
    with (
        Cluster("127.0.0.1:1", failover_timeout_ms=200) as nowhere,
        pytest.raises(NotReachable, match="connection refused"),
    ):
        nowhere.topics()
    with pytest.raises(UsageError, match="not a name server address"):
        Cluster("localhost")


def test_a_topic_deleted_and_created_again(cluster: EpochCluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 60)
    topics.delete(cluster.namesrv_addr, topic)
    topics.fill(cluster.namesrv_addr, topic, 10)
    with Cluster(cluster.namesrv_addr, failover_timeout_ms=300) as view:
        with pytest.raises(DataLost, match="created again"):
            list(view.read(queue, 20, 30))
        found: list[Lost] = []
        assert bodies(view.read(queue, 3, 30, on_lost=found.append)) == [b"6", b"8"]
    assert [(lost.start, lost.stop) for lost in found] == [(5, 30)]


def test_a_broker_that_restarts_is_waited_for(topic: str) -> None:
    with EpochCluster() as own, Cluster(own.namesrv_addr) as view:
        queue, _ = topics.fill(own.namesrv_addr, topic, 60)
        assert bodies(view.read(queue, 0, 10)) != []
        own.kill9_broker()
        later = threading.Timer(0.5, own.start_broker)
        later.start()
        try:
            assert bodies(view.read(queue, 0, 30)) == [b"%d" % n for n in range(0, 60, 2)]
            assert view.bounds(topic)[queue] == (0, 30)
        finally:
            later.join()


def test_a_full_queue_can_be_read_by_many_threads(
    cluster: EpochCluster, view: Cluster, topic: str
) -> None:
    queue = topics.create(cluster.namesrv_addr, topic, 1)[0]
    noise = random.Random(1).randbytes(40_000)  # a megabyte must hold only some of them
    big = [(queue, Message(topic, b"%05d" % n + noise)) for n in range(100)]
    topics.send(cluster.namesrv_addr, big)
    found: list[list[bytes]] = [[] for _ in range(4)]

    def read(at: int) -> None:
        found[at] = [body[:5] for body in bodies(view.read(queue, at, 100))]

    threads = [threading.Thread(target=read, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[b"%05d" % n for n in range(at, 100)] for at in range(4)]
