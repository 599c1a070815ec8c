"""A task's rows: all of a span, none twice, and what is missing said."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.model.queue import MessageQueue
from epochmq.spark.cluster import Cluster
from epochmq.spark.lost import DataLost, Lost
from epochmq.spark.options import SourceOptions, parse_source
from epochmq.spark.plan import Span
from epochmq.spark.rows import Counter, batches, close_clusters, cluster_of, on_lost

QUEUE = MessageQueue("t", "broker-a", 0)


def batch(offsets: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"queueOffset": pa.array(offsets, pa.int64())})


def options(namesrv: str, topic: str, **given: str) -> SourceOptions:
    return parse_source(
        {"nameServer": namesrv, "subscribe": topic, "failoverTimeoutMs": "500", **given}
    )


@given(st.data())
def test_every_offset_once_and_every_gap_told(data: st.DataObject) -> None:
    start, count = data.draw(st.integers(0, 50)), data.draw(st.integers(1, 40))
    span = Span(QUEUE, start, start + count)
    there = data.draw(st.sets(st.integers(max(0, start - 5), start + count + 5)))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(there)))) | {0, len(there)})
    gaps: list[Lost] = []
    counter = Counter(span, gaps.append)
    stored = sorted(there)
    given_rows = [
        offset
        for a, b in pairwise(cuts)
        for offset in counter.keep(batch(stored[a:b])).column("queueOffset").to_pylist()
    ]
    counter.reached(span.stop)
    assert given_rows == [offset for offset in stored if span.start <= offset < span.stop]
    missing = [offset for lost in gaps for offset in range(lost.start, lost.stop)]
    assert sorted([*given_rows, *missing]) == list(range(span.start, span.stop))


def test_a_filter_leaves_no_gaps_but_lost_ones() -> None:
    gaps: list[Lost] = []
    counter = Counter(Span(QUEUE, 0, 10), gaps.append, has_gaps=True)
    counter.keep(batch([1, 4]))
    counter.lost(Lost(QUEUE, 5, 7, "deleted"))
    counter.keep(batch([8]))
    counter.reached(10)
    assert [(lost.start, lost.stop) for lost in gaps] == [(5, 7)]


def test_what_the_reader_lost_is_told_once() -> None:
    gaps: list[Lost] = []
    counter = Counter(Span(QUEUE, 0, 10), gaps.append)
    counter.lost(Lost(QUEUE, 0, 4, "deleted"))
    counter.keep(batch([4, 5, 6, 7, 8, 9]))
    counter.reached(10)
    assert len(gaps) == 1


@pytest.mark.process
def test_the_columns_that_are_wanted(cluster: EpochCluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 40)
    span = Span(queue, 2, 18)
    whole = pa.Table.from_batches(
        batches(options(cluster.namesrv_addr, topic, rowsPerBatch="5"), ("body", "keys"), span)
    )
    assert whole.column_names == ["body", "keys"]
    assert whole["body"].to_pylist() == [b"%d" % n for n in range(4, 36, 2)]
    tagged = options(cluster.namesrv_addr, topic, tags="odd", maxBytesPerRead="500")
    odd = pa.Table.from_batches(batches(tagged, ("queueOffset",), span))
    assert odd["queueOffset"].to_pylist() == [n for n in range(2, 18) if n % 2]
    raw = options(cluster.namesrv_addr, topic, properties="raw")
    text = pa.Table.from_batches(batches(raw, ("properties",), span))["properties"][0].as_py()
    assert "KEYS\x01k4" in text


@pytest.mark.process
def test_loss_ends_the_task_unless_it_may_go_on(cluster: EpochCluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 10)
    span = Span(queue, 3, 9)
    given = options(cluster.namesrv_addr, topic)
    assert on_lost(given) is None
    with pytest.raises(DataLost, match="queue offsets 5 to 8"):
        list(batches(given, ("body",), span))
    forgiving = options(cluster.namesrv_addr, topic, failOnDataLoss="false")
    found = pa.Table.from_batches(batches(forgiving, ("body",), span))
    assert found["body"].to_pylist() == [b"6", b"8"]


@pytest.mark.process
def test_a_process_keeps_its_connections(cluster: EpochCluster, topic: str) -> None:
    given = options(cluster.namesrv_addr, topic)
    first = cluster_of(given)
    assert isinstance(first, Cluster)
    assert cluster_of(options(cluster.namesrv_addr, topic, tags="x")) is first
    assert cluster_of(options(cluster.namesrv_addr, topic, failoverTimeoutMs="9s")) is not first
    close_clusters()
    assert cluster_of(given) is not first
    close_clusters()


def test_offsets_are_compared_as_numbers() -> None:
    """A whole batch in order is passed on as it is, not copied."""
    whole = batch(list(range(5, 10)))
    assert Counter(Span(QUEUE, 5, 10), lambda lost: None).keep(whole) is whole
