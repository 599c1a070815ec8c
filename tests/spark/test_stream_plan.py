"""How a stream moves on: batch by batch, with limits, losses and queues that come and go."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.base.errors import NotFound
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.spark.options import parse_source
from epochmq.spark.retry import DataLost, Lost
from epochmq.spark.spark_cluster import Cluster
from epochmq.spark.stream_plan import Limits, StreamPlanner

pytestmark = pytest.mark.process

ALL = Limits()
Json = dict[str, Any]


@pytest.fixture(scope="module")
def view(cluster: EpochCluster) -> Iterator[Cluster]:
    with Cluster(cluster.namesrv_addr, failover_timeout_ms=5_000) as connected:
        yield connected


class Planned:
    """A planner with what it is told kept; `pollIntervalMs` 0 asks the broker each time."""

    def __init__(self, view: Cluster, topic: str, forgiving: bool = False, **given: str) -> None:
        self.lost: list[Lost] = []
        named = {"nameServer": "h:1", "subscribe": topic, "pollIntervalMs": "0"}
        options = parse_source({**named, "failoverTimeoutMs": "300", **given})
        self.planner = StreamPlanner(options, view, self.lost.append if forgiving else None)

    def rows(self, start: Json, end: Json) -> dict[int, tuple[int, int]]:
        spans = self.planner.spans(start, end)
        return {span.queue.queue_id: (span.start, span.stop) for span in spans}


def again(offset: Json) -> Json:
    """As Spark gives it back."""
    loaded: Json = json.loads(json.dumps(offset))
    return loaded


def test_batches_follow_each_other(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    queues = topics.fill(cluster.namesrv_addr, topic, 20)
    planned = Planned(view, topic, startingOffsets="earliest", maxRecordsPerPartition="4")
    start = planned.planner.initial()
    assert planned.planner.initial() is start, "asked twice, said once"
    first = planned.planner.latest(again(start), Limits(rows=6))
    assert planned.rows(start, first) == {0: (0, 3), 1: (0, 3)}
    second = planned.planner.latest(again(first), ALL)
    assert len(planned.planner.spans(first, second)) == 4
    assert [len(task) for task in planned.planner.tasks(first, second)] == [1] * 4
    assert planned.planner.report() == {
        "offsets": {topic: {"broker-a:0": 10, "broker-a:1": 10}},
        "offsetsBehindLatest": {"min": 0, "max": 0, "total": 0},
    }
    idle = again(second)
    assert planned.planner.latest(idle, ALL) is idle
    topics.send(cluster.namesrv_addr, [(queues[1], Message(topic, b"new"))])
    assert planned.rows(second, planned.planner.latest(idle, ALL)) == {1: (10, 11)}


def test_the_start_is_kept_by_the_first_batch(
    cluster: EpochCluster, view: Cluster, topic: str
) -> None:
    """Latest, a failed batch, a restart."""
    queues = topics.fill(cluster.namesrv_addr, topic, 4)
    before = Planned(view, topic)
    start = before.planner.initial()
    topics.send(cluster.namesrv_addr, [(queues[0], Message(topic, b"%d" % n)) for n in range(3)])
    end = again(before.planner.latest(start, ALL))
    topics.send(cluster.namesrv_addr, [(queues[0], Message(topic, b"%d" % n)) for n in range(5)])
    restarted = Planned(view, topic)
    other_start = again(restarted.planner.initial())
    assert other_start != start
    assert restarted.rows(other_start, end) == {0: (2, 5)}
    assert restarted.rows(end, restarted.planner.latest(end, ALL)) == {0: (5, 10)}


def test_available_now_stops_at_what_was_there(
    cluster: EpochCluster, view: Cluster, topic: str
) -> None:
    queues = topics.fill(cluster.namesrv_addr, topic, 10)
    planned = Planned(view, topic, startingOffsets="earliest", minOffsetsPerTrigger="1000")
    planned.planner.prepare()
    topics.send(cluster.namesrv_addr, [(queues[0], Message(topic, b"later"))])
    topics.create(cluster.namesrv_addr, topic, 3)
    view._calls._retries.expire(topic)
    start = planned.planner.initial()
    end = planned.planner.latest(start, Limits(rows=1_000))
    assert len(view.queues(topic)) == 3
    assert planned.rows(start, end) == {0: (0, 5), 1: (0, 5)}
    assert planned.planner.latest(end, ALL) is end


def test_few_rows_wait_for_more(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    queues = topics.fill(cluster.namesrv_addr, topic, 2)
    planned = Planned(view, topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    end = planned.planner.latest(planned.planner.initial(), ALL)
    topics.send(cluster.namesrv_addr, [(queues[0], Message(topic, b"x"))] * 4)
    assert planned.planner.latest(end, ALL) is end
    topics.send(cluster.namesrv_addr, [(queues[1], Message(topic, b"x"))])
    assert planned.rows(end, planned.planner.latest(end, ALL)) == {0: (1, 5), 1: (1, 2)}
    hasty = Planned(view, topic, minOffsetsPerTrigger="99", maxTriggerDelay="0")
    assert hasty.planner.latest(end, ALL) is not end


def test_bytes_are_measured_by_samples(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    first, second = topics.create(cluster.namesrv_addr, topic)
    sent = [(first, Message(topic, b"x" * 2_000))] * 20 + [
        (second, Message(topic, b"y" * 200))
    ] * 20
    topics.send(cluster.namesrv_addr, sent)
    planned = Planned(view, topic, startingOffsets="earliest")
    start = planned.planner.initial()
    rows = planned.rows(start, planned.planner.latest(start, Limits(byte_count=12_000)))
    assert 3 <= rows[0][1] <= 5
    assert 3 <= rows[1][1] <= 5
    one = planned.planner.latest(start, Limits(byte_count=1))
    assert sum(stop - start for start, stop in planned.rows(start, one).values()) == 1


def test_a_topic_created_again(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    topics.fill(cluster.namesrv_addr, topic, 20)
    strict, forgiving = Planned(view, topic), Planned(view, topic, forgiving=True)
    end = strict.planner.latest(strict.planner.initial(), ALL)
    topics.delete(cluster.namesrv_addr, topic)
    with pytest.raises(NotFound, match="This query read it before"):
        strict.planner.latest(end, ALL)
    assert forgiving.planner.latest(end, ALL) is end
    topics.fill(cluster.namesrv_addr, topic, 8)
    with pytest.raises(DataLost, match="created again"):
        strict.planner.latest(end, ALL)
    following = forgiving.planner.latest(end, ALL)
    assert forgiving.rows(end, following) == {0: (0, 4), 1: (0, 4)}
    assert [(lost.start, lost.stop) for lost in forgiving.lost] == [(4, 10), (4, 10)]


def test_an_end_that_goes_back_for_a_moment_is_no_loss(
    cluster: EpochCluster, view: Cluster, topic: str
) -> None:
    """As when a replica that is behind answers; here the queue itself grows again."""
    queue = topics.fill(cluster.namesrv_addr, topic, 8, 1)[0]
    planned = Planned(view, topic, failoverTimeoutMs="9s")
    end = planned.planner.latest(planned.planner.initial(), ALL)
    topics.delete(cluster.namesrv_addr, topic)
    topics.fill(cluster.namesrv_addr, topic, 4, 1)
    more = [(queue, Message(topic, b"again"))] * 5
    later = threading.Timer(0.5, topics.send, (cluster.namesrv_addr, more))
    later.start()
    try:
        following = planned.planner.latest(end, ALL)
    finally:
        later.join()
    spans = planned.planner.spans(end, following)
    assert not spans or (spans[0].start, spans[0].stop) == (8, 9)


def test_queues_and_topics_that_are_added(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    topics.fill(cluster.namesrv_addr, topic, 4)
    named = {"subscribePattern": f"{topic}.*", "startingOffsets": "earliest"}
    options = parse_source({"nameServer": "h:1", "pollIntervalMs": "0", **named})
    planner = StreamPlanner(options, view)
    end = planner.latest(planner.initial(), ALL)
    topics.fill(cluster.namesrv_addr, f"{topic}_more", 6, 3)
    following = planner.latest(end, ALL)
    assert [(s.queue.topic, s.start, s.stop) for s in planner.spans(end, following)] == [
        (f"{topic}_more", 0, 2)
    ] * 3


def test_the_groups_offsets_follow(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    topics.fill(cluster.namesrv_addr, topic, 10)
    planned = Planned(view, topic, startingOffsets="earliest", groupId=f"g_{topic}")
    start = planned.planner.initial()
    end = planned.planner.latest(start, ALL)
    queue = MessageQueue(topic, "broker-a", 0)
    assert view.committed(f"g_{topic}", queue) is None, "the batch is not done yet"
    assert planned.planner.latest(end, ALL) is end  # Spark asks on, so it is done
    assert view.committed(f"g_{topic}", queue) == 5, "Spark may kill the planner now"
    topics.send(cluster.namesrv_addr, [(queue, Message(topic, b"more"))])
    following = planned.planner.latest(end, ALL)
    planned.planner.publish(following)
    assert planned.planner.latest(following, ALL) is following
    assert view.committed(f"g_{topic}", queue) == 6
    planned.planner.stop()


def test_a_group_that_cannot_be_published_stops_nothing(
    cluster: EpochCluster, view: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics.fill(cluster.namesrv_addr, topic, 10)
    planned = Planned(view, topic, startingOffsets="earliest", groupId=f"g_{topic}")
    end = planned.planner.latest(planned.planner.initial(), ALL)
    topics.delete(cluster.namesrv_addr, topic)
    planned.planner.publish(end)
    planned.planner.stop()
    assert "could not be published" in caplog.text


def test_a_topic_created_again_and_grown_past_the_old_place_is_noticed(
    cluster: EpochCluster, view: Cluster, topic: str
) -> None:
    topics.fill(cluster.namesrv_addr, topic, 6)
    query = Planned(view, topic, startingOffsets="earliest")
    end = again(query.planner.latest(query.planner.initial(), ALL))
    assert end["newest"].keys() == {topic}
    # Nothing has happened: a restart goes on, with more messages and without.
    assert Planned(view, topic).planner.latest(end, ALL) is end
    topics.fill(cluster.namesrv_addr, topic, 2)
    more = Planned(view, topic)
    assert more.rows(end, more.planner.latest(end, ALL)) == {0: (3, 4), 1: (3, 4)}

    topics.delete(cluster.namesrv_addr, topic)
    topics.fill(cluster.namesrv_addr, topic, 20)
    with pytest.raises(
        DataLost, match="deleted and created again after its queue was read up to 3"
    ):
        Planned(view, topic).planner.latest(end, ALL)
    forgiving = Planned(view, topic, forgiving=True)
    after = forgiving.planner.latest(end, ALL)
    assert forgiving.rows(end, after) == {0: (0, 10), 1: (0, 10)}
    assert len(forgiving.lost) == 2
    assert Planned(view, topic).planner.latest(again(after), ALL) == after, "said once"
    old = {name: value for name, value in end.items() if name != "newest"}
    assert Planned(view, topic).rows(old, Planned(view, topic).planner.latest(old, ALL)) == {
        0: (3, 10),
        1: (3, 10),
    }, "a checkpoint of a version that kept no times"
