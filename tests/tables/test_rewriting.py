"""Small files into large ones."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from epochmq.tables.archive_table import DataFile
from epochmq.tables.rewriting import bins, conform, rewrite
from epochmq.tables.storage import Storage

files = st.lists(
    st.tuples(st.sampled_from("TU"), st.sampled_from(["1", "2"]), st.integers(1, 120)), max_size=30
).map(
    lambda found: [
        DataFile(f"{topic}/{day}/{at}", 1, size, topic, day)
        for at, (topic, day, size) in enumerate(found)
    ]
)


@given(files)
def test_bins_are_of_one_partition_and_of_one_size(found: list[DataFile]) -> None:
    packed = bins(found, 100)
    flat = [file.path for each in packed for file in each]
    assert len(flat) == len(set(flat))
    for each in packed:
        assert len(each) > 1
        assert len({(file.topic, file.store_date) for file in each}) == 1
        assert sum(file.bytes for file in each) <= 100
        assert all(file.bytes < 50 for file in each)


def test_rewriting_fills_columns_that_came_later(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    old = []
    for number in range(3):
        table = pa.table({"n": [number], "late": ["x"]} if number else {"n": [number]})
        path = f"topic=T/storeDate=1/{number}.parquet"
        with storage.create(path) as out:
            pq.write_table(table, out)
        old.append(DataFile(path, 1, 9, "T", "1", {"n": [number, number]}))
    schema = pa.schema([("n", pa.int64()), ("late", pa.string())])
    made = rewrite(storage, old, schema, 7)
    assert (made.rows, made.topic) == (3, "T")
    assert made.stats == {"n": [0, 2, 0], "late": ["x", "x", 1]}
    assert made.bytes == Path(storage.url(made.path)).stat().st_size
    rows = pq.read_table(storage.url(made.path), partitioning=None)
    assert rows.to_pylist() == [
        {"n": 0, "late": None},
        {"n": 1, "late": "x"},
        {"n": 2, "late": "x"},
    ]


def test_conform() -> None:
    schema = pa.schema([("b", pa.string()), ("a", pa.int64())])
    found = conform(pa.table({"a": pa.array([1], pa.int32()), "c": [1]}), schema)
    assert found.to_pylist() == [{"b": None, "a": 1}]
