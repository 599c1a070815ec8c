"""What is the plain format's own; the rest is in test_opening.py."""

import os
import time
from pathlib import Path

import pyarrow.parquet as pq
from tests.spark.jobs.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.spark.jobs.tables.opening import open_table
from epochmq.spark.jobs.tables.parquet import ParquetArchive, remove_unused
from epochmq.spark.jobs.tables.storage import Storage


def test_each_file_tells_all_by_itself(tmp_path: Path) -> None:
    table = open_table(str(tmp_path), "parquet", schema=SCHEMA, app=APP)
    table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    (only,) = table.files()
    rows = pq.read_table(only, partitioning=None)
    assert rows.schema.names == SCHEMA.names
    assert rows["msgId"].to_pylist() == [f"T-0-{at}" for at in range(4)]


def test_the_schema_survives(tmp_path: Path) -> None:
    open_table(str(tmp_path), "parquet", schema=SCHEMA, app=APP)
    assert ParquetArchive(str(tmp_path)).schema() == SCHEMA


def test_unused_files_go_by_age(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    for name in ("old", "new", "used"):
        with storage.create(f"{name}.parquet") as out:
            out.write(b"x")
    past = time.time() - 7200
    for name in ("old", "used"):
        os.utime(tmp_path / f"{name}.parquet", (past, past))
    assert remove_unused(storage, {"used.parquet"}, 1.0) == 1
    assert set(storage.find()) == {"new.parquet", "used.parquet"}
