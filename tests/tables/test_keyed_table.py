"""Tables by key: the larger version stays, and the state is in the same transaction."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochmq.base.errors import NotFound, UsageError
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.keyed_table import FORMATS, KeyedTable, open_keyed

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


@pytest.mark.parametrize("cluster", [False, True])
def test_small_files_become_large_ones(tmp_path: Path, cluster: bool) -> None:
    """Each batch with new keys makes a file; a stream made one every ten seconds, for ever."""
    table = open_keyed(str(tmp_path), "delta", schema=SCHEMA)
    for number in range(12):
        table.merge(rows(*((f"k{each % 37}", f"{number:02d}", each) for each in range(37))), "m")
        table.merge(rows((f"new{number}", "1", number)), "n")
    expected = content(table)
    files = {file.name for file in tmp_path.glob("*.parquet")}
    table.compact("after", cluster=cluster)
    assert (content(table), table.state()) == (expected, "after")
    again = open_keyed(str(tmp_path))
    assert content(again) == expected
    (file,) = (file for file in tmp_path.glob("*.parquet") if file.name not in files)
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


def test_iceberg_says_what_to_use_instead(tmp_path: Path) -> None:
    table = open_keyed(str(tmp_path), "iceberg", schema=SCHEMA)
    with pytest.raises(UsageError, match="run rewrite_data_files of Spark"):
        table.compact("x", cluster=False)


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
