"""What is the plain format's own; the rest is in test_opening.py."""

import json
import os
import re
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import StoreDamaged
from epochmq.tables.opening import open_table
from epochmq.tables.parquet import ParquetArchive, remove_unused
from epochmq.tables.storage import Storage


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


def test_changed_bits_of_a_file_are_found(tmp_path: Path) -> None:
    table = ParquetArchive(str(tmp_path), SCHEMA, APP)
    table.commit(APP, 1, offsets(2), files_of(table, 1, 0, 2))
    table.commit(APP, 2, offsets(4), files_of(table, 2, 2, 4))
    table = ParquetArchive(str(tmp_path))  # as another process finds it
    table.check_files()
    file = Path(table.files()[0].removeprefix("file://"))
    sound = file.read_bytes()
    for bit in range(0, 8 * len(sound), 131):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        with pytest.raises(StoreDamaged, match=f"1 of 2 files are damaged.*{re.escape(file.name)}"):
            table.check_files()
    with pytest.raises(StoreDamaged):
        table.compact()  # would make damage look sound
    file.write_bytes(sound)
    assert table.compact() == {"removed": 2, "added": 1}
    table.check_files()


def test_a_manifest_without_digests_is_read(tmp_path: Path) -> None:
    """As versions before them wrote it."""
    table = ParquetArchive(str(tmp_path), SCHEMA, APP)
    table.commit(APP, 1, offsets(2), files_of(table, 1, 0, 2))
    for each in (tmp_path / "_manifest").iterdir():
        found = json.loads(each.read_text())
        del found["sha256"]
        for file in found["add"]:
            del file["sha256"]
        each.write_text(json.dumps(found))
    ParquetArchive(str(tmp_path)).check_files()
