"""Tables by key: the larger version stays, and the state is in the same transaction."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochmq.base.errors import NotFound, UsageError
from epochmq.tables import keyed_table
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.keyed_table import FORMATS, IcebergKeyed, KeyedTable, open_keyed

SCHEMA = pa.schema([("key", pa.string()), ("version", pa.string()), ("n", pa.int64())])


def rows(*found: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"key": key, "version": version, "n": n} for key, version, n in found], SCHEMA
    )


def content(table: KeyedTable) -> dict[str, int]:
    found = table.scan(["key", "n"])
    assert len(set(found["key"].to_pylist())) == found.num_rows, "a key has two rows"
    return dict(zip(found["key"].to_pylist(), found["n"].to_pylist(), strict=True))


@pytest.mark.parametrize("format", FORMATS)
def test_the_larger_version_stays(tmp_path: Path, format: str) -> None:
    table = open_keyed(str(tmp_path), format, schema=SCHEMA)
    assert table.state() is None
    table.merge(rows(("a", "2", 1), ("b", "1", 2)), "first")
    assert (content(table), table.state()) == ({"a": 1, "b": 2}, "first")
    table.merge(rows(("a", "1", 3), ("b", "2", 4), ("c", "1", 5)), "second")
    assert (content(table), table.state()) == ({"a": 1, "b": 4, "c": 5}, "second")
    table.merge(rows(("a", "2", 6)), "third")
    assert content(table) == {"a": 1, "b": 4, "c": 5}
    again = open_keyed(str(tmp_path))
    assert again.format == format
    assert again.state() in ("second", "third"), "a merge without a change may store no state"
    assert content(again) == {"a": 1, "b": 4, "c": 5}


@pytest.mark.parametrize("format", FORMATS)
def test_two_writers_are_told_and_a_repeat_makes_no_difference(tmp_path: Path, format: str) -> None:
    open_keyed(str(tmp_path), format, schema=SCHEMA).merge(rows(("a", "1", 1)), "first")
    one, other = (open_keyed(str(tmp_path)) for _ in range(2))
    one.merge(rows(("a", "3", 3)), "second")
    with pytest.raises(TableConflict, match=r"was not committed to .* Start the job again"):
        other.merge(rows(("a", "2", 2)), "second")
    again, other = (open_keyed(str(tmp_path)) for _ in range(2))
    again.merge(rows(("a", "2", 2), ("new", "1", 4)), "third")
    with pytest.raises(TableConflict, match="another program writes to the table"):
        other.merge(rows(("new", "2", 5)), "third")
    assert content(again) == {"a": 3, "new": 4}


def data_files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("cluster", [False, True])
def test_small_files_become_large_ones(tmp_path: Path, cluster: bool, format: str) -> None:
    """Each batch with new keys makes a file; a stream made one every ten seconds, for ever."""
    table = open_keyed(str(tmp_path), format, schema=SCHEMA)
    for number in range(12):
        table.merge(rows(*((f"k{each % 37}", f"{number:02d}", each) for each in range(37))), "m")
        table.merge(rows((f"new{number}", "1", number)), "n")
    expected = content(table)
    files = data_files(tmp_path)
    table.compact("after", cluster=cluster)
    assert (content(table), table.state()) == (expected, "after")
    again = open_keyed(str(tmp_path))
    assert content(again) == expected
    (file,) = data_files(tmp_path) - files
    keys = pq.read_table(file)["key"].to_pylist()
    assert sorted(keys) == sorted(expected)
    assert (keys == sorted(keys)) or not cluster
    table.merge(rows(("k1", "99", 7)), "later")
    assert content(table)["k1"] == 7


@pytest.mark.parametrize("days", [6, 8])
def test_files_without_use_for_a_week_are_deleted(tmp_path: Path, days: int) -> None:
    table = open_keyed(str(tmp_path), "delta", schema=SCHEMA)
    for number in range(3):
        table.merge(rows(("a", f"{number}", number), (f"new{number}", "1", number)), "m")
    expected = content(table)
    before = {file.name for file in tmp_path.glob("*.parquet")}
    removed = set()
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                removed.add(action["remove"]["path"])
                action["remove"]["deletionTimestamp"] -= days * 24 * 3_600_000
        commit.write_text("\n".join(map(json.dumps, actions)) + "\n")
    assert removed
    again = open_keyed(str(tmp_path))
    again.compact("m", cluster=False)
    gone = before - {file.name for file in tmp_path.glob("*.parquet")}
    assert gone == (removed if days > 7 else set())
    assert content(again) == expected


def test_a_compaction_beside_another_writer_is_told(tmp_path: Path) -> None:
    open_keyed(str(tmp_path), "delta", schema=SCHEMA).merge(rows(("a", "1", 1)), "first")
    one, other = (open_keyed(str(tmp_path)) for _ in range(2))
    one.merge(rows(("a", "2", 2), ("b", "1", 3)), "second")
    other.compact("second", cluster=True)
    assert content(other) == {"a": 2, "b": 3}, "it looks before it compacts"


BUCKETED = pa.schema([*SCHEMA, ("bucket", pa.int32())])


def in_buckets(number: int, buckets: int) -> pa.Table:
    """Return a batch of new keys, one in each bucket, in falling order."""
    found = rows(*((f"k{number:02d}-{bucket}", "1", number) for bucket in range(buckets)))
    return found.append_column("bucket", pa.array(range(buckets), pa.int32()))


@pytest.mark.parametrize("format", FORMATS)
def test_each_bucket_is_compacted(tmp_path: Path, format: str) -> None:
    table = open_keyed(str(tmp_path), format, schema=BUCKETED)
    for number in range(5, 0, -1):
        table.merge(in_buckets(number, 3), "m")
    expected, files = content(table), data_files(tmp_path)
    table.compact("after", cluster=True)
    assert (content(table), table.state()) == (expected, "after")
    made = data_files(tmp_path) - files
    assert len(made) == 3
    for file in made:
        keys = pq.read_table(file, partitioning=None)["key"].to_pylist()
        assert len(keys) == 5
        assert keys == sorted(keys)
    if format == "iceberg":
        table.compact("again", cluster=False)
        assert data_files(tmp_path) - files == made, "one file a bucket is not rewritten"
        assert table.state() == "after"


def test_an_iceberg_table_is_compacted_some_buckets_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = open_keyed(str(tmp_path), "iceberg", schema=BUCKETED)
    for number in range(4):
        table.merge(in_buckets(number, 3), "m")
    expected, files = content(table), data_files(tmp_path)
    bucket_bytes = sum(file.stat().st_size for file in files) // 3
    monkeypatch.setattr(keyed_table, "REWRITTEN_BYTES_MAX", bucket_bytes * 5 // 2)
    table.compact("after", cluster=False)
    assert (content(table), table.state()) == (expected, "after")
    assert len(data_files(tmp_path) - files) == 3
    for number in range(4, 6):
        table.merge(in_buckets(number, 3), "m")
    monkeypatch.setattr(keyed_table, "REWRITTEN_BYTES_MAX", 100)
    files = data_files(tmp_path)
    table.compact("more", cluster=False)
    assert data_files(tmp_path) == files
    assert "bucket 0 has 0 MiB in 3 files, which is too much to be rewritten" in caplog.text


@pytest.mark.parametrize("days", [6, 8])
def test_files_of_expired_snapshots_are_deleted(
    tmp_path: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_keyed(str(tmp_path), "iceberg", schema=SCHEMA)
    for number in range(3):
        table.merge(rows(("a", f"{number}", number), (f"new{number}", "1", number)), "m")
    expected, files = content(table), data_files(tmp_path)
    monkeypatch.setattr(keyed_table, "KEPT_HOURS", -1 if days > 7 else 24)
    table.compact("after", cluster=False)
    assert (content(table), table.state()) == (expected, "after")
    assert bool(files & data_files(tmp_path)) == (days < 7)
    assert content(open_keyed(str(tmp_path))) == expected


def test_an_iceberg_compaction_that_another_writer_overtakes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_keyed(str(tmp_path), "iceberg", schema=SCHEMA).merge(rows(("a", "1", 1)), "first")
    one, other = (open_keyed(str(tmp_path)) for _ in range(2))
    one.merge(rows(("b", "1", 2)), "second")
    assert isinstance(other, IcebergKeyed)
    to_rewrite = other._buckets_to_rewrite

    def overtaken(cluster: bool) -> Any:
        found = list(to_rewrite(cluster))
        one.merge(rows(("c", "1", 3)), "third")
        return found

    monkeypatch.setattr(other, "_buckets_to_rewrite", overtaken)
    with pytest.raises(TableConflict, match="another program writes to the table"):
        other.compact("mine", cluster=True)
    assert content(one) == {"a": 1, "b": 2, "c": 3}


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    for format in FORMATS:
        with pytest.raises(NotFound, match=r"there is no (Delta|Iceberg)"):
            open_keyed(str(tmp_path / "none"), format)
    with pytest.raises(UsageError, match="is not a format of tables by key"):
        open_keyed(str(tmp_path), "parquet")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        open_keyed(str(tmp_path), schema=SCHEMA)
    open_keyed(str(tmp_path / "i"), "iceberg", schema=SCHEMA)
    with pytest.raises(UsageError, match="is iceberg, not delta"):
        open_keyed(str(tmp_path / "i"), "delta")
