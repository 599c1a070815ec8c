"""A task's rows: all of a span, none twice, and what is missing said."""

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.base.errors import Refused
from epochmq.model import record
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.spark.options import SourceOptions, parse_source
from epochmq.spark.plan import QueueRange
from epochmq.spark.retry import DataLost, Lost
from epochmq.spark.rows import (
    Counter,
    absent,
    batches,
    close_clusters,
    cluster_of,
    on_lost,
    queue_offsets,
)
from epochmq.spark.spark_cluster import Cluster
from epochmq.store.written_blocks import BLOCK_BYTES

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
    span = QueueRange(QUEUE, start, start + count)
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
    counter = Counter(QueueRange(QUEUE, 0, 10), gaps.append, has_gaps=True)
    counter.keep(batch([1, 4]))
    counter.lost(Lost(QUEUE, 5, 7, "deleted"))
    counter.keep(batch([8]))
    counter.reached(10)
    assert [(lost.start, lost.stop) for lost in gaps] == [(5, 7)]


def test_what_the_reader_lost_is_told_once() -> None:
    gaps: list[Lost] = []
    counter = Counter(QueueRange(QUEUE, 0, 10), gaps.append)
    counter.lost(Lost(QUEUE, 0, 4, "deleted"))
    counter.keep(batch([4, 5, 6, 7, 8, 9]))
    counter.reached(10)
    assert len(gaps) == 1


@pytest.mark.process
def test_the_columns_that_are_wanted(cluster: EpochCluster, topic: str) -> None:
    queue, _ = topics.fill(cluster.namesrv_addr, topic, 40)
    span = QueueRange(queue, 2, 18)
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
    span = QueueRange(queue, 3, 9)
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


@pytest.mark.process
def test_a_damaged_record_is_named_and_can_be_passed(topic: str) -> None:
    with EpochCluster() as own:
        queue, _ = topics.fill(own.namesrv_addr, topic, 40)
        given = options(own.namesrv_addr, topic)
        places = pa.Table.from_batches(
            batches(given, ("commitLogOffset",), QueueRange(queue, 0, 20))
        )
        log = own.store / "commitlog" / f"{0:020d}"
        with log.open("r+b") as file:
            file.seek(places["commitLogOffset"][7].as_py() + record.MAGIC_AT)
            file.write(b"\0\0\0\0")
        found: list[bytes] = []
        with pytest.raises(Refused, match="the log is damaged from offset"):
            found.extend(
                body
                for rows in batches(given, ("body",), QueueRange(queue, 0, 20))
                for body in rows.column("body").to_pylist()
            )
        assert found == [b"%d" % n for n in range(0, 14, 2)]
        forgiving = options(own.namesrv_addr, topic, failOnDataLoss="false")
        whole = pa.Table.from_batches(batches(forgiving, ("body",), QueueRange(queue, 0, 20)))
        assert whole["body"].to_pylist() == [b"%d" % n for n in range(0, 40, 2) if n != 14]
        tagged = options(own.namesrv_addr, topic, failOnDataLoss="false", tags="odd")
        odd = pa.Table.from_batches(batches(tagged, ("queueOffset",), QueueRange(queue, 0, 20)))
        assert odd["queueOffset"].to_pylist() == [n for n in range(20) if n % 2 and n != 7]
        close_clusters()


@pytest.mark.process
def test_a_damaged_block_is_named_and_can_be_passed(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that was started again refuses all that lies in a block with a wrong checksum."""
    with EpochCluster() as own:
        (queue,) = topics.create(own.namesrv_addr, topic, 1)
        messages = [
            Message(topic, Random(n).randbytes(10_000), tags="ab"[n % 2]) for n in range(30)
        ]
        topics.send(own.namesrv_addr, [(queue, message) for message in messages])
        span = QueueRange(queue, 0, 30)
        sound = options(own.namesrv_addr, topic)
        places = pa.Table.from_batches(batches(sound, ("commitLogOffset",), span))[0].to_pylist()
        own.restart_broker()
        with (own.store / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(places[12] + record.MAGIC_AT)
            file.write(b"\0\0\0\0")
        low = places[12] - places[12] % BLOCK_BYTES
        gone = [n for n in range(29) if places[n] < low + BLOCK_BYTES and places[n + 1] > low]
        assert 12 in gone
        assert 2 < len(gone) < 10
        with pytest.raises(Refused, match=f"the log is damaged from offset {low} to"):
            list(batches(sound, ("queueOffset",), span))
        for tags in (None, "a"):
            caplog.clear()
            more = {"tags": tags} if tags else {}
            given = options(own.namesrv_addr, topic, failOnDataLoss="false", **more)
            rows = pa.Table.from_batches(batches(given, ("queueOffset", "body"), span))
            wanted = [n for n in range(30) if n not in gone and (not tags or n % 2 == 0)]
            assert rows["queueOffset"].to_pylist() == wanted
            assert f"queue offsets {gone[0]} to {gone[-1]} ({len(gone)} messages)" in caplog.text
        close_clusters()


@pytest.mark.process
def test_batches_kept_as_one_record_are_cut_exactly(cluster: EpochCluster, topic: str) -> None:
    queue = topics.create(cluster.namesrv_addr, topic, 1, {"+queue.type": "BatchCQ"})[0]
    topics.send_batches(cluster.namesrv_addr, queue, [[b"%d" % n for n in range(5)]] * 3)
    given = options(cluster.namesrv_addr, topic)
    for start, stop in ((0, 15), (3, 12), (6, 7), (4, 5)):
        found = pa.Table.from_batches(
            batches(given, ("queueOffset",), QueueRange(queue, start, stop))
        )
        assert found["queueOffset"].to_pylist() == list(range(start, stop))


def test_a_record_that_gives_no_row_is_not_lost() -> None:
    def stored(offset: int) -> bytes:
        host = bytes(8)
        return record.encode(b"t", b"b", b"", 0, 0, offset, 0, 0, 0, host, 0, host, 0, 0)

    chunk = b"".join(map(stored, (3, 5, 6)))
    assert list(queue_offsets(chunk)) == [3, 5, 6]
    assert list(absent(chunk, 2, 9)) == [(2, 3), (4, 5), (7, 9)]
    assert list(absent(chunk, 5, 7)) == []
    assert list(absent(b"", 5, 7)) == [(5, 7)]
    gaps: list[Lost] = []
    counter = Counter(QueueRange(QUEUE, 3, 7), gaps.append)
    counter.records = chunk
    counter.keep(batch([3, 6]))
    counter.reached(7)
    assert [(lost.start, lost.stop) for lost in gaps] == [(4, 5)]


def test_offsets_are_compared_as_numbers() -> None:
    """A whole batch in order is passed on as it is, not copied."""
    whole = batch(list(range(5, 10)))
    assert Counter(QueueRange(QUEUE, 5, 10), lambda lost: None).keep(whole) is whole
