"""Iceberg tables by pyiceberg: a snapshot contains the files, and the mark in its summary.

The transaction is a single change of the metadata location in the catalog.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from epochmq.base.errors import EnvironmentFault, EpochError, NotFound, UsageError
from epochmq.base.needs import need
from epochmq.tables.archive_table import (
    PARTITION_COLUMNS,
    DataFile,
    Offsets,
    TableConflict,
    TransactionMark,
    check_mark,
    check_owner,
    new_columns,
)
from epochmq.tables.digests import TableDigests
from epochmq.tables.iceberg_catalog import CATALOG_FILE, IcebergCatalog, check_name, summaries
from epochmq.tables.marked_table import MarkedTable
from epochmq.tables.parquet import remove_unused
from epochmq.tables.storage import Storage, clear_errors, normal

KEY = "epochmq.mark"
OWNER = "epochmq.app"
DATA, METADATA = "data", "metadata"
"""The directories of a table below its location."""
DEFAULT_NAME = "archive.messages"
NO_RETRIES = {"commit.retry.num-retries": "0"}
"""Properties of a table whose commits fail if it has changed since it was read."""


class IcebergArchive(MarkedTable):
    """An archive's Iceberg table; implements `ArchiveTable`.

    `uri` is the warehouse, `name` the table in it ("namespace.table").
    """

    format = "iceberg"

    def __init__(
        self,
        uri: str,
        schema: Any = None,
        app: str = "",
        *,
        name: str = DEFAULT_NAME,
        catalog: str | None = None,
    ) -> None:
        need("pyiceberg.catalog", "lake")
        # pyiceberg warns for every file of every column that has no statistics.
        logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
        self.warehouse = normal(uri)
        self.name = check_name(name)
        super().__init__()
        with clear_errors(self.warehouse):
            self._catalog = IcebergCatalog(self.warehouse, catalog, create=schema is not None)
            self._table = self._open(schema, app)
        location = _plain(self._table.location())
        self.root = f"{location}/{DATA}"
        self.storage = Storage(self.root)
        self._digests = TableDigests(Storage(self._place(location)), METADATA, DATA)
        self._mark = self._find_mark()

    def _place(self, location: str) -> str:
        """Return the table's directory, in which its digests are.

        It is where the catalog found the metadata file, because a changed byte in this file can
        give another `location`.
        """
        path = _plain(self._table.metadata_location)
        found, folder, name = path.rpartition(f"/{METADATA}/")
        is_own = folder and "/" not in name and "write.metadata.path" not in self._table.properties
        # Catalogs write one place as file:/x and file:///x, or as s3a://x and s3://x.
        is_same = found.rpartition("://")[2] == location.rpartition("://")[2]
        return found if is_own and not is_same else location

    @property
    def mark(self) -> TransactionMark | None:
        return self._mark

    @staticmethod
    def is_at(storage: Storage) -> bool:
        """Return whether there is a warehouse with a catalog made here."""
        return storage.exists(CATALOG_FILE)

    def _open(self, schema: Any, app: str) -> Any:
        found = self._catalog.load(self.name)
        if found is not None:
            return found
        if schema is None:
            raise NotFound(f"there is no Iceberg table {self.name} in {self.warehouse}")
        # One transaction: an existing table always has partitions and an owner.
        with self._catalog.creating(self.name, schema) as change:
            with change.update_spec() as spec:
                for column in PARTITION_COLUMNS:
                    spec.add_identity(column)
            # A retry after a conflict would bypass the check for commits of other runs.
            change.set_properties({OWNER: app, **NO_RETRIES})
        return self._catalog.load(self.name)

    def _find_mark(self) -> TransactionMark | None:
        for summary in summaries(self._table):
            if KEY in summary:
                return TransactionMark.from_json(summary[KEY])
        return None

    def last_batch(self, app: str) -> tuple[int, Offsets] | None:
        owner = self._table.properties.get(OWNER)
        if self._mark is None and owner != app:
            raise UsageError(
                f"the table {self.name} in {self.warehouse} belongs to"
                f" '{owner or 'somebody else'}', not to the archive '{app}': name another table"
            )
        check_owner(self._mark, app, f"{self.name} in {self.warehouse}")
        return (self._mark.batch, self._mark.offsets) if self._mark else None

    def _look(self) -> None:
        """Load the newest snapshot; raises `TableConflict` if it has another run's mark.

        The catalog detects later commits when we commit.
        """
        self._catalog.refresh(self._table)
        check_mark(self._find_mark(), self._mark, self.root)

    def _write(self, mark: TransactionMark, files: Sequence[DataFile]) -> None:
        def change(transaction: Any) -> None:
            self._digests.add(files)
            with transaction.update_snapshot(snapshot_properties=_marked(mark)).fast_append() as to:
                for each in self._data_files(transaction, files):
                    to.append_data_file(each)

        self._commit(change)
        self._mark = mark

    def _commit(self, change: Any) -> None:
        failed = need("pyiceberg.exceptions", "lake").CommitFailedException
        try:
            with (
                clear_errors(self.root),
                self._catalog.errors(),
                self._table.transaction() as transaction,
            ):
                self._name_columns(transaction)
                change(transaction)
        except failed as error:
            raise TableConflict(
                f"another archive writes to {self.name} in {self.warehouse}; this run stops"
                f" ({error})"
            ) from error
        self._catalog.refresh(self._table)
        self._add_digests()

    def _add_digests(self) -> None:
        """Store the digests of the metadata that the current snapshot needs."""
        paths = [self._table.metadata_location]
        if (snapshot := self._table.current_snapshot()) is not None:
            paths += [snapshot.manifest_list]
            paths += [each.manifest_path for each in snapshot.manifests(self._table.io)]
        self._digests.add_metadata(path.rpartition("/")[2] for path in paths)

    def _name_columns(self, transaction: Any) -> None:
        """Set the name mapping: our files have no field ids, so readers find columns by name."""
        names = need("pyiceberg.table", "lake").TableProperties.DEFAULT_NAME_MAPPING
        if names not in transaction.table_metadata.properties:
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties({names: mapping})

    def _data_files(self, transaction: Any, files: Sequence[DataFile]) -> Iterator[Any]:
        if not files:
            return iter(())
        module = need("pyiceberg.io.pyarrow", "lake")
        found: Iterator[Any] = module.parquet_files_to_data_files(
            io=self._table.io,
            table_metadata=transaction.table_metadata,
            file_paths=iter([self.storage.url(each.path) for each in files]),
        )
        return found

    def _current(self) -> list[tuple[DataFile, Any]]:
        """Return the table's current files, as `DataFile` and as Iceberg's own entry."""
        try:
            return [(self._ours(task.file), task.file) for task in self._table.scan().plan_files()]
        except EpochError:
            raise
        except (
            Exception
        ) as error:  # pyiceberg parses files, and paths in files, that may have changed
            self._digests.check_metadata()
            if isinstance(error, OSError):
                raise
            raise EnvironmentFault(f"the list of files of {self.root} cannot be read") from error

    def _ours(self, file: Any) -> DataFile:
        path = _plain(file.file_path).removeprefix(self.root).lstrip("/")
        topic, days = file.partition[0], file.partition[1]
        day = (date(1970, 1, 1) + timedelta(days=days)).isoformat()
        return DataFile(path, file.record_count, file.file_size_in_bytes, str(topic), day)

    def files(self) -> list[str]:
        self._catalog.refresh(self._table)
        return sorted(_plain(entry.file_path) for _, entry in self._current())

    def schema(self) -> Any:
        return need("pyiceberg.io.pyarrow", "lake").schema_to_pyarrow(
            self._table.schema(), include_field_ids=False
        )

    def evolve(self, schema: Any) -> list[str]:
        fresh = new_columns(self.schema(), schema, self.root)
        if fresh:
            pa = need("pyarrow", "spark")
            with self._catalog.errors(), self._table.update_schema() as update:
                update.union_by_name(pa.schema(fresh))
            self._catalog.refresh(self._table)
            self._add_digests()
        return [each.name for each in fresh]

    def data_files(self) -> list[DataFile]:
        self._catalog.refresh(self._table)
        files = sorted((ours for ours, _ in self._current()), key=lambda each: each.path)
        return self._digests.added_to(files)

    def check_files(self) -> None:
        self._digests.check_metadata()
        super().check_files()

    def record_digests(self, files: Sequence[DataFile]) -> None:
        self._digests.add(files)

    def _exchange(
        self, mark: TransactionMark, gone: Sequence[DataFile], new: Sequence[DataFile]
    ) -> None:
        entries = {ours.path: entry for ours, entry in self._current()}

        def change(transaction: Any) -> None:
            self._digests.add(new)
            update = transaction.update_snapshot(snapshot_properties=_marked(mark))
            with update.overwrite() as to:
                for each in gone:
                    to.delete_data_file(entries[each.path])
                for entry in self._data_files(transaction, new):
                    to.append_data_file(entry)

        self._commit(change)

    def vacuum(self, older_than_hours: float) -> int:
        """Expire snapshots of that age, then delete unused files; files of kept snapshots stay."""
        removed = drop_snapshots(self._catalog, self._table, older_than_hours)
        self._add_digests()
        self._digests.forget_missing()
        return removed


def _marked(mark: TransactionMark) -> dict[str, str]:
    return {KEY: mark.as_json()}


def drop_snapshots(catalog: IcebergCatalog, table: Any, older_than_hours: float) -> int:
    """Expire snapshots of that age, and delete files that are older and in no other snapshot.

    Returns how many data files were deleted.
    """
    storage = Storage(f"{_plain(table.location())}/{DATA}")
    catalog.refresh(table)
    with clear_errors(storage.root), catalog.errors():
        before = datetime.now(UTC) - timedelta(hours=older_than_hours)
        table.maintenance.expire_snapshots().older_than(before).commit()
    catalog.refresh(table)
    named = table.inspect.all_files().column("file_path").to_pylist()
    used = {_plain(each).removeprefix(storage.root).lstrip("/") for each in named}
    return remove_unused(storage, used, older_than_hours)


def _plain(uri: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", uri)
