"""Catalogs by URL and by name. A REST catalog is in tests/compat/test_iceberg_rest.py."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    ServerError,
)
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import EnvironmentFault, EpochError, NotFound, NotReachable, UsageError
from epochmq.tables.iceberg_catalog import IcebergCatalog, check_name, io_properties
from epochmq.tables.keyed_table import open_keyed
from epochmq.tables.opening import changed_metadata, open_table


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A catalog named by the environment, whose own warehouse is elsewhere."""
    monkeypatch.setenv("PYICEBERG_CATALOG__TEAM__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__TEAM__URI", f"sqlite:///{tmp_path}/team.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__TEAM__WAREHOUSE", f"file://{tmp_path}/elsewhere")
    return "team"


@pytest.mark.parametrize("name", ["flights", "a.", ".b", "a.b;c", "a.b c"])
def test_bad_names(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name of an Iceberg table"):
        check_name(name)


@pytest.mark.parametrize("name", ["a.b", "a.b.c", "lake.day-orders", "a_1.b_2"])
def test_good_names(name: str) -> None:
    assert check_name(name) == name


def test_catalogs_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no Iceberg catalog at"):
        IcebergCatalog(str(tmp_path), None, create=False)
    with pytest.raises(UsageError, match="needs --catalog"):
        IcebergCatalog("s3://bucket/lake", None, create=True)


def test_a_name_that_is_not_configured(tmp_path: Path, team: str) -> None:
    with pytest.raises(UsageError, match=r"no catalog 'teem' .* \(it has: team\)"):
        IcebergCatalog(str(tmp_path), "teem", create=False)


def test_tables_of_a_named_catalog_are_below_the_given_place(tmp_path: Path, team: str) -> None:
    place = str(tmp_path / "lake")
    table = open_table(place, "iceberg", schema=SCHEMA, app=APP, name="sales.flights", catalog=team)
    assert table.root == f"{place}/sales/flights/data"
    table.claim(APP, {})
    assert table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
    (changed, *_) = (tmp_path / "lake").rglob("*.metadata.json")
    changed.write_bytes(changed.read_bytes() + b" ")
    assert changed_metadata(place, team) == [str(changed.relative_to(place))]
    keyed = open_keyed(place, "iceberg", schema=SCHEMA, name="sales.latest", catalog=team)
    assert keyed.state() is None


@pytest.mark.parametrize("exists", [True, False])
def test_a_namespace_that_another_thread_creates_too(
    tmp_path: Path, team: str, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    """A server may answer with any error to the one that was late."""
    original = SqlCatalog.create_namespace

    def late(self: SqlCatalog, name: str) -> None:
        if exists:
            original(self, name)
        raise ServerError("UNIQUE constraint failed")

    monkeypatch.setattr(SqlCatalog, "create_namespace", late)
    catalog = IcebergCatalog(str(tmp_path), team, create=True)
    with (
        nullcontext() if exists else pytest.raises(EnvironmentFault, match="UNIQUE"),
        catalog.creating("a.b", SCHEMA),
    ):
        pass
    assert (catalog.load("a.b") is not None) == exists


def test_a_table_that_is_not_below_the_given_place_is_refused(tmp_path: Path, team: str) -> None:
    """Its digests would not be found: `verify` would call a damaged table sound."""
    for number, place in enumerate(("lake", "lake2")):
        open_table(
            str(tmp_path / place), "iceberg", schema=SCHEMA, name=f"a.t{number}", catalog=team
        )
    with pytest.raises(UsageError, match=f"has the table a.t1 at {tmp_path}/lake2/a/t1, not below"):
        open_table(str(tmp_path / "lake"), name="a.t1", catalog=team)
    assert open_table(str(tmp_path), name="a.t1", catalog=team).mark is None


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ForbiddenError("no"), EnvironmentFault, r"refuses this user \(no\).*CATALOG__TEAM__TOKEN"),
        (CommitStateUnknownException("504"), EnvironmentFault, "did not say whether"),
        (ServerError("a\n  b"), EnvironmentFault, "answers with an error: a b"),
        (CommitFailedException("conflict"), CommitFailedException, "conflict"),
        (NoSuchTableError("a.b"), NoSuchTableError, "a.b"),
        (UsageError("ours"), UsageError, "ours"),
    ],
)
def test_errors_of_a_server(
    tmp_path: Path, team: str, error: Exception, kind: type[EpochError], text: str
) -> None:
    catalog = IcebergCatalog(str(tmp_path), team, create=False)
    with pytest.raises(kind, match=text), catalog.errors():
        raise error


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(NotReachable) as error:
        IcebergCatalog(str(tmp_path), "http://me:secret@127.0.0.1:1/api", create=False)
    assert "the catalog http://127.0.0.1:1/api does not answer" in str(error.value)
    assert "secret" not in str(error.value)


def test_the_environment_tells_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    assert io_properties("/a") == {}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "eu")
    found = io_properties("s3://a")
    assert (found["s3.endpoint"], found["s3.region"]) == ("http://127.0.0.1:1", "eu")
