"""What is Iceberg's own; the rest is in test_opening.py."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import NotFound, StoreDamaged, UsageError
from epochmq.tables.iceberg import IcebergArchive
from epochmq.tables.opening import open_table


def others_catalog(place: Path) -> SqlCatalog:
    """As other programs open it: a catalog by this name, in SQLite."""
    return SqlCatalog("epochmq", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")


def test_others_read_it_through_the_catalog(tmp_path: Path) -> None:
    table = open_table(str(tmp_path), "iceberg", schema=SCHEMA, app=APP, name="lake.flights")
    table.claim(APP, {})
    table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    catalog = others_catalog(tmp_path)
    plain = catalog.load_table("lake.flights")
    rows = plain.scan(row_filter="topic = 'T' and queueOffset >= 2").to_arrow()
    assert sorted(rows["queueOffset"].to_pylist()) == [2, 3]
    assert rows["properties"].to_pylist()[0][0] == ("UNIQ_KEY", rows["msgId"].to_pylist()[0])
    assert [field.name for field in plain.spec().fields] == ["topic", "storeDate"]


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_catalog_may_write_the_place_of_the_metadata_in_any_form(
    tmp_path: Path, form: str
) -> None:
    """A REST catalog writes `file:/x`; the digests are found, and a changed byte is too."""
    table = open_table(str(tmp_path), "iceberg", schema=SCHEMA, app=APP)
    table.claim(APP, {})
    table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    metadata = max((tmp_path / "archive/messages/metadata").glob("*.metadata.json"))
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as catalog, catalog:
        changed = catalog.execute(
            "UPDATE iceberg_tables SET metadata_location = ?", (form.format(metadata),)
        )
        assert changed.rowcount == 1
    again = open_table(str(tmp_path), "iceberg")
    again.check_files()
    again.claim(APP, offsets(4))
    sound = metadata.read_bytes()
    metadata.write_bytes(sound.replace(b'"format-version"', b'"format-versioo"'))
    with pytest.raises(StoreDamaged, match="metadata"):
        again.check_files()


def test_another_catalog(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/elsewhere.db"
    place = str(tmp_path / "lake")
    table = open_table(place, "iceberg", schema=SCHEMA, app=APP, catalog=uri)
    table.claim(APP, offsets(3))
    assert open_table(place, catalog=uri).last_batch(APP) == (0, offsets(3))
    assert not (tmp_path / "lake" / "catalog.db").exists()


def test_two_tables_of_one_warehouse(tmp_path: Path) -> None:
    for name in ("a.one", "a.two"):
        open_table(str(tmp_path), "iceberg", schema=SCHEMA, app=name, name=name).claim(name, {})
    assert open_table(str(tmp_path), name="a.two").last_batch("a.two") == (0, {})
    with pytest.raises(NotFound, match=r"there is no Iceberg table a\.three"):
        open_table(str(tmp_path), name="a.three")


def test_a_table_of_others_is_refused(tmp_path: Path) -> None:
    catalog = others_catalog(tmp_path)
    catalog.create_namespace("archive")
    catalog.create_table("archive.messages", schema=SCHEMA)
    with pytest.raises(UsageError, match="belongs to 'somebody else'"):
        IcebergArchive(str(tmp_path)).last_batch(APP)
