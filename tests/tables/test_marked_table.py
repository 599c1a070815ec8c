"""What all table formats share: files are replaced, and get digests, in one transaction."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import StoreDamaged
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.opening import AnyTable, open_table

FORMATS = ("delta", "iceberg", "parquet")
pytestmark = pytest.mark.parametrize("table", FORMATS, indirect=True)


def test_files_are_replaced_and_offsets_stay(table: AnyTable, tmp_path: Path) -> None:
    table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    table.commit(APP, 2, offsets(6), files_of(table, 2, 4, 6))
    old = [each for each in table.data_files() if each.rows == 4]
    table.replace(old, files_of(table, 2, 0, 4))
    again = open_table(str(tmp_path / "table"))
    assert again.mark == table.mark
    assert sorted(each.rows for each in again.data_files()) == [2, 4]
    assert old[0].path not in {each.path for each in again.data_files()}
    assert all(len(each.sha256) == 64 for each in again.data_files())
    again.check_files()


def test_a_run_that_was_replaced_does_not_replace_files(table: AnyTable, tmp_path: Path) -> None:
    table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    files = table.data_files()
    other = open_table(str(tmp_path / "table"), schema=SCHEMA, app=APP)
    other.claim(APP, offsets(4))
    with pytest.raises(TableConflict):
        table.replace(files, files_of(table, 1, 0, 4))
    assert {each.path for each in other.data_files()} == {each.path for each in files}


def test_a_file_without_a_digest_gets_one(table: AnyTable) -> None:
    plain = [replace(each, sha256="") for each in files_of(table, 1, 0, 4)]
    table.commit(APP, 1, offsets(4), plain)
    (file,) = table.data_files()
    assert file.sha256 == ""
    table.check_files()
    table.record_digests([replace(file, sha256=table.storage.sha256(file.path))])
    table.check_files()
    with table.storage.fs.open(table.storage.url(file.path), "ab") as out:
        out.write(b"more")
    with pytest.raises(StoreDamaged, match="1 of 1 files are damaged"):
        table.check_files()
