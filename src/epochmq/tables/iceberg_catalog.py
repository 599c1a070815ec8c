"""Catalogs of Iceberg tables: SQLite in the warehouse, a database, REST, or one that PyIceberg's
configuration names (Hive, Glue, REST with credentials).
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from epochmq.base.errors import EnvironmentFault, EpochError, NotFound, NotReachable, UsageError
from epochmq.base.needs import need
from epochmq.tables.storage import is_local, normal

CATALOG_FILE = "catalog.db"
"""The SQLite file of a warehouse without another catalog."""
CATALOG_NAME = "epochmq"
"""Name of catalogs without a name; PyIceberg's configuration may add properties to it."""


class IcebergCatalog:
    """The catalog of a warehouse, as PyIceberg opens it.

    Args:
        warehouse: directory or URL below which the tables are.
        catalog: None for SQLite in the warehouse; else the URL of a database or of a REST catalog,
            or the name of a catalog in PyIceberg's configuration.
        create: whether a missing SQLite file is created.

    Raises `NotFound` where there is no catalog, `UsageError` for one that is not configured,
    `NotReachable` where it does not answer, and `EnvironmentFault` where it refuses.
    """

    def __init__(self, warehouse: str, catalog: str | None, *, create: bool) -> None:
        self.warehouse = normal(warehouse)
        self._said = re.sub("//[^/]*@", "//", catalog or CATALOG_FILE)
        """What errors name; without a password."""
        self._is_remote = catalog is not None and (_is_http(catalog) or "://" not in catalog)
        with self.errors():
            self._catalog = _open(self.warehouse, catalog, create=create)

    def load(self, name: str) -> Any:
        """Return the PyIceberg table `name` ("namespace.table"); None if there is none.

        Raises `UsageError` for a table that is not below the warehouse: its digests would not be
        found.
        """
        missing = need("pyiceberg.exceptions", "lake")
        try:
            with self.errors():
                table = self._catalog.load_table(name)
        except (missing.NoSuchTableError, missing.NoSuchNamespaceError):
            return None
        location = _location(table.location())
        if self._is_remote and not f"{location}/".startswith(f"{_location(self.warehouse)}/"):
            raise UsageError(
                f"the catalog {self._said} has the table {name} at {location}, not below"
                f" {self.warehouse}: name a directory above {location} as the table's place"
            )
        return table

    def refresh(self, table: Any) -> None:
        """Read the newest version of a table."""
        with self.errors():
            table.refresh()

    @contextmanager
    def creating(self, name: str, schema: Any) -> Iterator[Any]:
        """Yield the transaction that creates a table, and its namespace if there is none.

        A catalog that other programs share gets the location WAREHOUSE/NAMESPACE/TABLE.
        """
        namespace = name.rpartition(".")[0]
        location = f"{_url(self.warehouse)}/{name.replace('.', '/')}" if self._is_remote else None
        with self.errors():
            self._create_namespace(namespace)
            with self._catalog.create_table_transaction(name, schema, location) as change:
                yield change

    def _create_namespace(self, name: str) -> None:
        """Create a namespace unless it exists; another thread or program may do the same now."""
        if self._catalog.namespace_exists(name):
            return
        try:
            self._catalog.create_namespace(name)
        except Exception:  # catalogs differ in what they raise for one that was just created
            if not self._catalog.namespace_exists(name):
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of a catalog that other programs serve to one clear line.

        Errors that callers distinguish (no such table, a conflict) stay as they are.
        """
        try:
            yield
        except EpochError:
            raise
        except Exception as error:
            clear = self._clear(error) if self._is_remote else None
            if clear is None:
                raise
            raise clear from error

    def _clear(self, error: BaseException) -> EpochError | None:
        known = need("pyiceberg.exceptions", "lake")
        if type(error).__module__.partition(".")[0] == "requests":
            while error.__context__ is not None:  # the cause of the cause is what a user knows
                error = error.__context__
            cause = str(error) or type(error).__name__
            return NotReachable(
                f"the catalog {self._said} does not answer ({cause}): check that it runs, and its"
                " address; then run the same command again"
            )
        said = " ".join(str(error).split())[:200]
        if isinstance(error, (known.UnauthorizedError, known.OAuthError, known.ForbiddenError)):
            return EnvironmentFault(
                f"the catalog {self._said} refuses this user ({said}): set `token` or `credential`"
                f" of the catalog in .pyiceberg.yaml, or {self._variable('TOKEN')}"
            )
        if isinstance(error, known.CommitStateUnknownException):
            return EnvironmentFault(
                f"the catalog {self._said} did not say whether it has committed ({said}): run the"
                " same command again, it continues after what is committed"
            )
        if isinstance(error, known.RESTError):
            return EnvironmentFault(f"the catalog {self._said} answers with an error: {said}")
        return None

    def _variable(self, name: str) -> str:
        catalog = CATALOG_NAME if "://" in self._said else self._said
        return f"PYICEBERG_CATALOG__{catalog.upper()}__{name}"


def summaries(table: Any) -> Iterator[dict[str, str]]:
    """Yield the summaries of a table's current snapshot and its ancestors, newest first."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield dict(snapshot.summary.additional_properties) if snapshot.summary else {}
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None


def check_name(name: str) -> str:
    """Return `name`; raises `UsageError` unless it has the form "namespace.table"."""
    parts = re.sub("[_-]", "a", name).split(".")
    if len(parts) < 2 or not all(map(str.isalnum, parts)):
        raise UsageError(f"'{name}' is not a name of an Iceberg table: write namespace.table")
    return name


def io_properties(warehouse: str) -> dict[str, str]:
    """Return pyiceberg's properties for an object store, from the environment."""
    if is_local(warehouse):
        return {}
    wanted = {
        "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "s3.access-key-id": ("AWS_ACCESS_KEY_ID",),
        "s3.secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
        "s3.session-token": ("AWS_SESSION_TOKEN",),
        "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    }
    found = {
        name: next(filter(None, map(os.environ.get, keys)), "") for name, keys in wanted.items()
    }
    return {name: value for name, value in found.items() if value}


def _open(warehouse: str, catalog: str | None, *, create: bool) -> Any:
    properties = io_properties(warehouse)
    if catalog is None:
        catalog = f"sqlite:///{_local_file(warehouse, create=create)}"
    elif "://" not in catalog:
        return _open_named(catalog, properties)
    elif _is_http(catalog):
        return need("pyiceberg.catalog", "lake").load_catalog(
            CATALOG_NAME, type="rest", uri=catalog, warehouse=warehouse, **properties
        )
    return need("pyiceberg.catalog.sql", "lake").SqlCatalog(
        CATALOG_NAME, uri=catalog, warehouse=_url(warehouse), **properties
    )


def _open_named(name: str, properties: dict[str, str]) -> Any:
    """Open a catalog of PyIceberg's configuration, which decides over the environment's."""
    config = need("pyiceberg.utils.config", "lake").Config()
    found = config.get_catalog_config(name)
    if not found:
        known = ", ".join(sorted(config.get_known_catalogs())) or "none"
        raise UsageError(
            f"there is no catalog '{name}' in PyIceberg's configuration (it has: {known}): write it"
            f" to .pyiceberg.yaml or set PYICEBERG_CATALOG__{name.upper()}__URI; or give the URL of"
            " a database or of a REST catalog"
        )
    return need("pyiceberg.catalog", "lake").load_catalog(name, **{**properties, **found})


def _local_file(warehouse: str, *, create: bool) -> str:
    if not is_local(warehouse):
        raise UsageError(
            f"an Iceberg table in {warehouse} needs --catalog: a database"
            " (sqlite:////path/catalog.db, postgresql+psycopg2://...), a REST catalog, or a name in"
            " PyIceberg's configuration"
        )
    path = os.path.join(warehouse, CATALOG_FILE)
    if not create and not os.path.exists(path):
        raise NotFound(f"there is no Iceberg catalog at {path}")
    os.makedirs(warehouse, exist_ok=True)
    return path


def _is_http(catalog: str) -> bool:
    return catalog.startswith(("http://", "https://"))


def _url(warehouse: str) -> str:
    return f"file://{warehouse}" if is_local(warehouse) else warehouse


def _location(uri: str) -> str:
    """Return a location in the form in which locations of several programs can be compared."""
    plain = uri.rstrip("/").removeprefix("file://")
    plain = f"/{plain.removeprefix('file:').lstrip('/')}" if plain.startswith("file:") else plain
    return re.sub(r"^s3[an]://", "s3://", plain)
