"""What is Delta's own; the rest is in test_opening.py."""

import json
from pathlib import Path

import deltalake
import pytest
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import NotFound, UsageError
from epochmq.tables.archive_table import DataFile
from epochmq.tables.delta import DeltaArchive, statistics, storage_options
from epochmq.tables.opening import open_table


def test_the_transaction_is_delta_s_own(tmp_path: Path) -> None:
    """Other readers of Delta see rows, partitions, statistics and (app, batch)."""
    table = open_table(str(tmp_path), "delta", schema=SCHEMA, app=APP)
    table.claim(APP, {})
    table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    plain = deltalake.DeltaTable(str(tmp_path))
    assert plain.transaction_version(APP) == 1
    assert plain.metadata().partition_columns == ["topic", "storeDate"]
    assert plain.metadata().name == APP
    rows = plain.to_pyarrow_table(filters=[("topic", "=", "T")])
    assert sorted(rows["queueOffset"].to_pylist()) == [0, 1, 2, 3]
    assert set(rows["topic"].to_pylist()) == {"T"}
    log = (tmp_path / "_delta_log" / f"{2:020d}.json").read_text()
    (added,) = [each["add"] for each in map(json.loads, log.splitlines()) if "add" in each]
    assert json.loads(added["stats"])["maxValues"]["queueOffset"] == 3


def test_a_table_that_others_wrote_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    deltalake.write_deltalake(str(tmp_path), pa.table({"a": [1]}))
    with pytest.raises(UsageError, match="a Delta table that no archive wrote last"):
        DeltaArchive(str(tmp_path))
    with pytest.raises(NotFound, match="there is no Delta table at"):
        DeltaArchive(str(tmp_path / "none"))


def test_the_mark_is_found_behind_commits_of_others(tmp_path: Path) -> None:
    table = open_table(str(tmp_path), "delta", schema=SCHEMA, app=APP)
    table.claim(APP, offsets(2))
    for _ in range(12):
        deltalake.DeltaTable(str(tmp_path)).alter.set_table_properties(
            {"delta.checkpointInterval": "5"}
        )
    assert open_table(str(tmp_path)).last_batch(APP) == (0, offsets(2))


def test_statistics() -> None:
    stats = {"queueOffset": [1, 7, 0], "tags": [None, None, 3], "topic": ["T", "T", 0]}
    file = DataFile("p", 3, 9, "T", "2026-01-01", stats)
    assert json.loads(statistics(file)) == {
        "numRecords": 3,
        "minValues": {"queueOffset": 1},
        "maxValues": {"queueOffset": 7},
        "nullCount": {"queueOffset": 0, "tags": 3},
    }


def test_options_of_object_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage_options("/a") is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert storage_options("s3://a/b") == {
        "aws_conditional_put": "etag",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
    }
