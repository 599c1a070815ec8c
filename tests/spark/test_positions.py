"""From options to queue offsets: patterns and names as values, times and groups from a broker."""

from collections.abc import Iterator

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.base.errors import NotFound, UsageError
from epochmq.model.queue_offsets import Offsets
from epochmq.model.topic import MessageQueue
from epochmq.spark.options import OffsetsOption, SourceOptions, parse_source
from epochmq.spark.positions import begin_within, matching, queues_named, resolve, selected
from epochmq.spark.retry import DataLost, Lost
from epochmq.spark.spark_cluster import Cluster

pytestmark = pytest.mark.process

A0, A1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
B0 = MessageQueue("t", "b", 0)
BOUNDS = {A0: (5, 10), A1: (0, 7), B0: (0, 0)}


@pytest.fixture(scope="module")
def view(cluster: EpochCluster) -> Iterator[Cluster]:
    with Cluster(cluster.namesrv_addr, failover_timeout_ms=5_000) as connected:
        yield connected


def options(namesrv: str = "h:1", **given: str) -> SourceOptions:
    return parse_source({"nameServer": namesrv, **given})


def test_a_pattern_means_whole_names_and_no_topics_of_the_system() -> None:
    known = ["orders", "orders2", "%RETRY%orders", "%DLQ%g", "rmq_sys_wheel_timer", "TBW102"]
    assert matching(known, "orders") == ["orders"]
    assert matching(known, ".*") == ["orders", "orders2"]
    assert matching(known, "%DLQ%.*") == ["%DLQ%g"]


def test_a_queue_is_named_with_its_broker_or_by_its_number() -> None:
    assert queues_named(BOUNDS, "t", "a:1") == [A1]
    assert queues_named(BOUNDS, "t", "0") == [A0, B0]
    with pytest.raises(UsageError, match="no queue c:0: its queues are a:0, a:1, b:0"):
        queues_named(BOUNDS, "t", "c:0")
    with pytest.raises(UsageError, match="not selected"):
        queues_named(BOUNDS, "u", "0")


def test_a_begin_within_the_bounds_is_kept() -> None:
    begin = {A0: 5, A1: 7, B0: 0}
    assert begin_within(BOUNDS, begin, None, None) == begin


def test_a_begin_outside_is_loss_or_a_mistake() -> None:
    begin = {A0: 3, A1: 0, B0: 0}
    with pytest.raises(DataLost, match="queue offsets 3 to 4"):
        begin_within(BOUNDS, begin, None, None)
    lost: list[Lost] = []
    assert begin_within(BOUNDS, begin, None, lost.append)[A0] == 5
    assert [(each.start, each.stop) for each in lost] == [(3, 5)]
    with pytest.raises(UsageError, match="at queue offset 8, but it ends at 7"):
        begin_within(BOUNDS, {**begin, A0: 5, A1: 8}, OffsetsOption("Offsets"), None)
    with pytest.raises(DataLost, match="created again"):
        begin_within(BOUNDS, {**begin, A0: 5, A1: 8}, OffsetsOption("Group"), None)


def test_selections(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    first, second = topics.fill(cluster.namesrv_addr, topic, 6)
    whole = {first: (0, 3), second: (0, 3)}
    assert selected(view, options(subscribe=topic).selection) == whole
    assert selected(view, options(subscribePattern=f"{topic[:-1]}.").selection) == whole
    one = options(assign=f'{{"{topic}": [1]}}').selection
    assert selected(view, one) == {second: (0, 3)}
    with pytest.raises(UsageError, match="no queue 7"):
        selected(view, options(assign=f'{{"{topic}": [7]}}').selection)
    with pytest.raises(NotFound, match="no topic fits"):
        selected(view, options(subscribePattern="nothing.*").selection)
    both = options(subscribe=f"{topic},Missing_{topic}").selection
    with pytest.raises(NotFound, match=f"Missing_{topic}"):
        selected(view, both)
    assert selected(view, both, missing_ok=True) == whole


def test_positions(cluster: EpochCluster, view: Cluster, topic: str) -> None:
    first, second = topics.fill(cluster.namesrv_addr, topic, 6)
    bounds = view.bounds(topic)

    def at(**given: str) -> Offsets:
        start = options(subscribe=topic, **given).start
        assert start is not None
        return resolve(view, bounds, start)

    assert at(startingOffsets="earliest") == {first: 0, second: 0}
    assert at(startingOffsets="latest") == {first: 3, second: 3}
    table = f'{{"{topic}": {{"broker-a:0": 2, "1": -1}}}}'
    assert at(startingOffsets=table) == {first: 2, second: 3}
    assert at(startingTimestamp="1") == {first: 0, second: 0}
    assert at(startingTimestamp="99999999999999") == {first: 3, second: 3}
    by_queue = f'{{"{topic}": {{"0": 99999999999999}}}}'
    assert at(startingOffsetsByTimestamp=by_queue) == {first: 3, second: 0}
    with pytest.raises(UsageError, match="no message stored at 99999999999999 ms"):
        at(startingTimestamp="99999999999999", startingOffsetsByTimestampStrategy="error")
    view.commit("positions", first, 2)
    assert at(startingGroup="positions") == {first: 2, second: 0}
    assert at(startingGroup="positions", startingOffsets="latest") == {first: 2, second: 3}
