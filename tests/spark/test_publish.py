"""End offsets of queries as offsets of a group."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.model.topic import MessageQueue
from epochmq.spark.publish import PublishOffsets, end_offsets
from epochmq.spark.spark_cluster import Cluster

pytestmark = pytest.mark.process


@pytest.fixture
def view(cluster: EpochCluster) -> Iterator[Cluster]:
    with Cluster(cluster.namesrv_addr) as connected:
        yield connected


def progress(topic: str, offset: int, name: str | None = None) -> Any:
    """What Spark tells a listener, as far as it is looked at."""
    text = f'{{"version": 1, "offsets": {{"{topic}": {{"broker-a:0": {offset}}}}}}}'
    sources = [SimpleNamespace(endOffset=text), SimpleNamespace(endOffset='{"kafka": {"0": 5}}')]
    return SimpleNamespace(progress=SimpleNamespace(name=name, sources=sources))


def test_other_sources_are_passed_over() -> None:
    assert end_offsets([None, "7", "{", '{"a": {"0": 5}}']) == {}
    assert end_offsets(['{"version": 1, "offsets": {"t": {"b:0": 5}}}']) == {
        MessageQueue("t", "b", 0): 5
    }


def test_progress_becomes_the_groups_offset(
    cluster: EpochCluster, view: Cluster, topic: str
) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 20)
    listener = PublishOffsets(cluster.namesrv_addr, f"g_{topic}", query="mine")
    listener.onQueryProgress(progress(topic, 9, "another"))
    assert view.committed(f"g_{topic}", queue) is None
    listener.onQueryProgress(progress(topic, 7, "mine"))
    assert view.committed(f"g_{topic}", queue) == 7
    listener.close()


def test_trouble_is_kept_for_the_next_time(
    cluster: EpochCluster, view: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = PublishOffsets(cluster.namesrv_addr, f"g_{topic}")
    listener.onQueryProgress(progress(topic, 3))  # there is no such topic yet
    assert "are not published" in caplog.text
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 20)
    listener.onQueryTerminated(progress(topic, 0))
    assert view.committed(f"g_{topic}", queue) == 3
    listener.close()
