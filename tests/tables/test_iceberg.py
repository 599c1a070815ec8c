"""What is Iceberg's own; the rest is in test_opening.py."""

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import NotFound, UsageError
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
