"""Rows of an archive as runs of queue offsets, and their checksums."""

import zlib
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.sys_flag import COMPRESSED
from epochmq.model.topic import MessageQueue
from epochmq.tables.archive_rows import position, spans, wrong_bodies


def table(rows: list[tuple[str, int, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(
        {
            "brokerName": pa.array(columns[0], pa.string()),
            "queueId": pa.array(columns[1], pa.int32()),
            "queueOffset": pa.array(columns[2], pa.int64()),
        }
    )


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 4))))
def test_spans_are_the_rows(rows: list[tuple[str, int, int]]) -> None:
    found = list(spans(table(rows), "T"))
    assert [
        (span.queue.broker_name, span.queue.queue_id, offset)
        for span in found
        for offset in range(span.start, span.end)
    ] == rows
    for one, other in pairwise(found):
        assert (one.queue, one.end) != (other.queue, other.start), "a run is not cut"
    assert {span.queue for span in found} == {MessageQueue("T", *row[:2]) for row in rows}


def test_bodies() -> None:
    body = b"body"
    crc = zlib.crc32(body) & 0x7FFFFFFF
    rows = pa.table(
        {
            "body": [body, b"bodX", b"bodX", b"bodX", None],
            "bodyCRC": pa.array([crc, crc, crc, 0, crc], pa.int32()),
            "sysFlag": pa.array([0, 0, COMPRESSED, 0, 0], pa.int32()),
        }
    )
    assert wrong_bodies(rows) == [1]


def test_position() -> None:
    assert position(table([("b", 3, 7)]), 0) == "b:3:7"
