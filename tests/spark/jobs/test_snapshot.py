"""Snapshots are replaced as a whole; frames here only write a file, as Spark would."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochmq.base.errors import NotFound, UsageError
from epochmq.spark.jobs.snapshot import SnapshotTarget, snapshot_files


class Frame:
    """Writes `values` where Spark would write its part files."""

    def __init__(self, values: list[int], fails: bool = False) -> None:
        self._table = pa.table({"n": values})
        self._fails = fails

    @property
    def write(self) -> "Frame":
        return self

    def parquet(self, url: str) -> None:
        folder = Path(url.removeprefix("file://"))
        folder.mkdir()
        pq.write_table(self._table, folder / "part-0.parquet")
        if self._fails:
            raise RuntimeError("the JVM is gone")


def rows(uri: str) -> list[int]:
    found: list[int] = pa.concat_tables(map(pq.read_table, snapshot_files(uri)))["n"].to_pylist()
    return sorted(found)


def write(target: SnapshotTarget, frame: Any) -> int:
    return target.write(frame, {"topic": "t"}).rows


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_the_new_one_counts_when_it_is_whole(tmp_path: Path, format: str) -> None:
    uri = str(tmp_path / "s")
    assert write(SnapshotTarget(uri, format), Frame([1, 2])) == 2
    assert write(SnapshotTarget(uri), Frame([3])) == 1
    assert rows(uri) == [3]
    with pytest.raises(RuntimeError):
        write(SnapshotTarget(uri), Frame([4], fails=True))
    assert rows(uri) == [3]
    assert not [each for each in Path(uri).iterdir() if each.name.startswith("_snapshot")]


def test_readers_of_the_previous_snapshot_may_go_on(tmp_path: Path) -> None:
    uri = str(tmp_path / "s")
    kept = []
    for number in range(4):
        write(SnapshotTarget(uri), Frame([number]))
        kept.append(snapshot_files(uri)[0])
    assert [Path(each).exists() for each in kept] == [False, False, True, True]


def test_places_that_are_no_snapshot(tmp_path: Path) -> None:
    for uri, says in ((" ", "is not a directory"), ("s3://b/x", "is not a directory")):
        with pytest.raises(UsageError, match=says):
            SnapshotTarget(uri)
    with pytest.raises(UsageError, match="is not a format"):
        SnapshotTarget(str(tmp_path), "csv")
    with pytest.raises(NotFound, match="there is no snapshot"):
        snapshot_files(str(tmp_path))
    write(SnapshotTarget(str(tmp_path / "s"), "delta"), Frame([1]))
    with pytest.raises(UsageError, match="is delta, not parquet"):
        SnapshotTarget(str(tmp_path / "s"), "parquet")
    with pytest.raises(UsageError, match="holds other files"):
        SnapshotTarget(str(tmp_path))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "_current.json").write_text("?")
    with pytest.raises(UsageError, match="is not a snapshot's"):
        snapshot_files(str(tmp_path / "t"))
