"""Names, marks and schemas that all formats share."""

from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.model.queue_offsets import from_topics
from epochmq.tables.archive_table import (
    TableConflict,
    TransactionMark,
    batch_of,
    check_mark,
    check_owner,
    data_file_name,
    is_next,
    new_columns,
    partition_path,
    same_type,
)

MARK = TransactionMark("a", 3, {"T": {"b:0": 7}}, "run")


@given(st.integers(0, 10**12 - 1), st.integers(0, 99_999))
def test_a_file_tells_its_batch(batch: int, task: int) -> None:
    name = data_file_name(batch, task)
    assert batch_of(name) == batch_of(f"topic=T/storeDate=x/{name}") == batch
    assert name != data_file_name(batch, task)


@pytest.mark.parametrize("name", ["part-00000-1.parquet", "e1-2-3.parquet", "", "x/e.parquet"])
def test_other_files_have_no_batch(name: str) -> None:
    assert batch_of(name) is None


def test_partitions_need_no_escape_in_a_url() -> None:
    path = partition_path("%DLQ%g|h", "2026-01-02")
    assert path == "topic=.25DLQ.25g.7Ch/storeDate=2026-01-02"
    assert quote(path, safe="/=") == path


queue_names = st.sampled_from(["a:0", "broker-b:17", "c:d:3"])
by_queue = st.dictionaries(queue_names, st.integers(0, 2**63 - 1))
offsets = st.dictionaries(st.text(), by_queue)
times = st.dictionaries(st.text(), st.integers(0))
marks = st.builds(
    TransactionMark, st.text(), st.integers(0), offsets, st.text(), times, begin=offsets
)


@given(marks)
def test_marks_survive_json(mark: TransactionMark) -> None:
    assert TransactionMark.from_json(mark.as_json()) == mark


def test_a_flipped_bit_of_a_mark_is_refused_or_leaves_offsets_that_can_be_read() -> None:
    """`verify` reports a damaged mark; it must not stumble over it later."""
    queues = {"T": {"broker-a:0": 12, "broker-a:1": 3}}
    text = TransactionMark("app", 7, queues, "run", {"T": 5}, {"T": {"broker-a:0": 1}}).as_json()
    refused = 0
    for bit in range(len(text) * 7):
        flipped = bytearray(text.encode())
        flipped[bit // 7] ^= 1 << bit % 7
        try:
            mark = TransactionMark.from_json(flipped.decode())
        except StoreDamaged:
            refused += 1
        else:
            for found in (mark.offsets, mark.begin):
                from_topics(found)
            assert isinstance(mark.batch, int)
    assert refused > len(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"app": 1}', "null", "[" * 100_000),
        '{"app": "a", "batch": 1, "run": "r", "offsets": {"T": {"broker-a>0": 1}}}',
        '{"app": "a", "batch": 1, "run": "r", "offsets": {"T": {"broker-a:0": -1}}}',
        '{"app": "a", "batch": 1, "run": "r", "offsets": {"T": 4}}',
        '{"app": "a", "batch": "1", "run": "r", "offsets": {}}',
        '{"app": "a", "batch": 1, "run": "r", "offsets": {}, "begin": {"T": {"b": 1}}}',
    ],
)
def test_bad_marks(text: str) -> None:
    with pytest.raises(StoreDamaged, match="mark of the table's last transaction cannot be read"):
        TransactionMark.from_json(text)


def test_steps() -> None:
    assert is_next(MARK, 4)
    assert not is_next(MARK, 3)
    assert is_next(None, 1)
    check_mark(MARK, MARK, "t")
    check_mark(None, None, "t")
    with pytest.raises(TableConflict, match="run other, batch 3"):
        check_mark(TransactionMark("a", 3, {}, "other"), MARK, "t")
    with pytest.raises(TableConflict, match="somebody"):
        check_mark(None, MARK, "t")
    check_owner(MARK, "a", "t")
    check_owner(None, "b", "t")
    with pytest.raises(UsageError, match="the table t belongs to the archive 'a', not to 'b'"):
        check_owner(MARK, "b", "t")


def test_columns() -> None:
    have = pa.schema([("a", pa.large_string()), ("m", pa.map_(pa.string(), pa.string()))])
    want = pa.schema([("a", pa.string()), ("b", pa.int32()), ("m", have.field("m").type)])
    assert [each.name for each in new_columns(have, want, "t")] == ["b"]
    with pytest.raises(UsageError, match="column 'a' of t is large_string, and would be int64"):
        new_columns(have, pa.schema([("a", pa.int64())]), "t")


def test_types() -> None:
    assert same_type(pa.string(), pa.large_string())
    assert same_type(
        pa.map_(pa.string(), pa.string()), pa.map_(pa.large_string(), pa.large_string())
    )
    assert not same_type(pa.int32(), pa.int64())
    assert not same_type(pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int32()))
    assert not same_type(pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
