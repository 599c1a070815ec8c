"""Tables with one row for each key: rows are inserted or replaced by key, in one transaction.

A row has the columns `key` and `version`. A row replaces the row of its key if its version is
larger, so the order in which rows arrive, and rows that arrive twice, make no difference.

A table may be partitioned by `bucket`, a number that is computed from the key. A merge then reads
only the files of the buckets that have keys of the batch.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from epochmq.base.errors import NotFound, UsageError
from epochmq.base.needs import need
from epochmq.tables.archive_table import TARGET_FILE_BYTES, TableConflict
from epochmq.tables.delta import DeltaArchive, storage_options
from epochmq.tables.iceberg import DEFAULT_NAME, NO_RETRIES, IcebergArchive, drop_snapshots
from epochmq.tables.iceberg_catalog import IcebergCatalog, check_name, summaries
from epochmq.tables.opening import only_ours
from epochmq.tables.storage import Storage, clear_errors, normal

KEY, VERSION, BUCKET = "key", "version", "bucket"
STATE = "epochmq.keyed"
"""The key of the owner's state in the metadata of a commit."""
FORMATS = ("delta", "iceberg")
KEPT_HOURS = 7 * 24
"""Files that a version of the last seven days uses are not deleted; Delta's own default."""
REWRITTEN_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of Parquet files that a compaction of an Iceberg table reads into memory at a time."""
_LOOK_BACK = (8, 64, 4096)

_log = logging.getLogger(__name__)


class KeyedTable(ABC):
    """A table with one row for each key, and the state of its writer."""

    format: str

    @abstractmethod
    def state(self) -> str | None:
        """Return the state that was committed last; None before the first commit.

        Raises `UsageError` for a table that something else has written.
        """

    @abstractmethod
    def columns(self) -> list[str]:
        """Return the names of the table's columns."""

    @abstractmethod
    def merge(self, rows: Any, state: str) -> None:
        """Insert rows of new keys, replace older versions of known ones, and store `state`.

        `rows` is a `pyarrow.Table` in which each key occurs once, with the table's columns. All of
        it is one transaction.
        """

    @abstractmethod
    def compact(self, state: str, *, cluster: bool) -> None:
        """Merge small files into large ones, delete files of no use, and store `state`.

        With `cluster` rows are sorted by key, of the whole table or of each bucket, so that a
        reader of one key needs few files. Files are deleted that no version of the last seven days
        uses.
        """

    @abstractmethod
    def scan(self, columns: list[str] | None = None) -> Any:
        """Return all rows as a `pyarrow.Table`."""


@contextmanager
def _conflicts(root: str, *failed: type[Exception]) -> Iterator[None]:
    """Convert a library's error for a failed commit to `TableConflict`."""
    try:
        yield
    except failed as error:
        said = next(iter(str(error).splitlines()), "")
        raise TableConflict(
            f"the batch was not committed to {root}: another program writes to the table, or the"
            f" store lost an answer ({said[:200]}). Start the job again: rows that the table has"
            " make no difference"
        ) from error


class DeltaKeyed(KeyedTable):
    """A Delta table; delta-rs merges by a join on the key."""

    format = "delta"

    def __init__(self, uri: str, schema: Any = None) -> None:
        self._lib = need("deltalake", "lake")
        storage = Storage(uri)
        self.root = storage.root
        options = storage_options(self.root)
        with clear_errors(self.root):
            if DeltaArchive.is_at(storage):
                self._table = self._lib.DeltaTable(self.root, storage_options=options)
            elif schema is None:
                raise NotFound(f"there is no Delta table at {self.root}")
            elif not storage.is_empty() and not only_ours(storage):
                raise UsageError(f"{self.root} holds other files and no table: name an empty place")
            else:
                self._table = self._lib.DeltaTable.create(
                    self.root,
                    schema=schema,
                    partition_by=[BUCKET] if BUCKET in schema.names else None,
                    description="made by epochmq pipeline upsert",
                    storage_options=options,
                )

    def state(self) -> str | None:
        self._table.update_incremental()
        for limit in _LOOK_BACK:
            history = self._table.history(limit)
            for commit in history:
                if STATE in commit:
                    return str(commit[STATE])
            if len(history) < limit:
                break
        if self._table.file_uris():
            raise UsageError(f"{self.root} is a Delta table of another program: name another one")
        return None

    def columns(self) -> list[str]:
        return [field.name for field in self._table.schema().fields]

    def merge(self, rows: Any, state: str) -> None:
        properties = self._lib.CommitProperties(custom_metadata={STATE: state})
        failed = need("deltalake.exceptions", "lake").CommitFailedError
        with _conflicts(self.root, failed), clear_errors(self.root):
            same = [f"t.{name} = s.{name}" for name in (BUCKET, KEY) if name in rows.column_names]
            merger = self._table.merge(
                rows,
                " AND ".join(same),
                source_alias="s",
                target_alias="t",
                commit_properties=properties,
            )
            newer = merger.when_matched_update_all(f"s.{VERSION} > t.{VERSION}")
            newer.when_not_matched_insert_all().execute()
            self._table.update_incremental()

    def compact(self, state: str, *, cluster: bool) -> None:
        properties = self._lib.CommitProperties(custom_metadata={STATE: state})
        failed = need("deltalake.exceptions", "lake").CommitFailedError
        with _conflicts(self.root, failed), clear_errors(self.root):
            self._table.update_incremental()
            if cluster:
                self._table.optimize.z_order([KEY], commit_properties=properties)
            else:
                self._table.optimize.compact(commit_properties=properties)
            self._table.vacuum(
                retention_hours=KEPT_HOURS, dry_run=False, commit_properties=properties
            )
            self._table.update_incremental()

    def scan(self, columns: list[str] | None = None) -> Any:
        self._table.update_incremental()
        return self._table.to_pyarrow_table(columns=columns)


class IcebergKeyed(KeyedTable):
    """An Iceberg table; the rows of a batch that win replace the rows of their keys."""

    format = "iceberg"

    def __init__(
        self, uri: str, schema: Any = None, *, name: str = DEFAULT_NAME, catalog: str | None = None
    ) -> None:
        self._errors = need("pyiceberg.exceptions", "lake")
        self.root, self._name = normal(uri), check_name(name)
        with clear_errors(self.root):
            self._catalog = IcebergCatalog(self.root, catalog, create=schema is not None)
            self._table = self._catalog.load(self._name)
            if self._table is None:
                if schema is None:
                    raise NotFound(f"there is no Iceberg table {name} in {self.root}")
                with self._catalog.creating(self._name, schema) as change:
                    if BUCKET in schema.names:
                        with change.update_spec() as spec:
                            spec.add_identity(BUCKET)
                self._table = self._catalog.load(self._name)

    def state(self) -> str | None:
        self._catalog.refresh(self._table)
        for summary in summaries(self._table):
            if STATE in summary:
                return summary[STATE]
        if self._table.current_snapshot() is not None:
            raise UsageError(f"{self._name} in {self.root} was written by another program")
        return None

    def columns(self) -> list[str]:
        return list(self._table.schema().column_names)

    def merge(self, rows: Any, state: str) -> None:
        pa, expressions = need("pyarrow", "lake"), need("pyiceberg.expressions", "lake")
        keys, versions = rows.column(KEY).to_pylist(), rows.column(VERSION).to_pylist()

        def of_keys(chosen: list[str], among: Any) -> Any:
            found = expressions.In(KEY, chosen)
            if BUCKET not in among.column_names:
                return found
            buckets = set(among.column(BUCKET).to_pylist())
            return expressions.And(expressions.In(BUCKET, buckets), found)

        known = self._versions(of_keys(keys, rows)) if keys else {}
        pairs = zip(keys, versions, strict=True)
        wins = [known.get(key, "") < version for key, version in pairs]
        winners = rows.filter(pa.array(wins, pa.bool_()))
        replaced = [key for key in winners.column(KEY).to_pylist() if key in known]
        properties = {STATE: state}
        failed = (self._errors.CommitFailedException, self._errors.ValidationException)
        with (
            _conflicts(self.root, *failed),
            clear_errors(self.root),
            self._catalog.errors(),
        ):
            self._forbid_retries()
            if replaced:
                gone = of_keys(replaced, winners)
                self._table.overwrite(winners, gone, snapshot_properties=properties)
            else:
                self._table.append(winners, snapshot_properties=properties)
            self._catalog.refresh(self._table)

    def compact(self, state: str, *, cluster: bool) -> None:
        """Merge and sort files by rewriting whole buckets, or the table, in memory.

        A bucket of more than `REWRITTEN_BYTES_MAX` is left as it is, with a warning.
        """
        failed = (self._errors.CommitFailedException, self._errors.ValidationException)
        with _conflicts(self.root, *failed), clear_errors(self.root), self._catalog.errors():
            self._catalog.refresh(self._table)
            self._forbid_retries()
            for buckets in self._buckets_to_rewrite(cluster):
                expressions = need("pyiceberg.expressions", "lake")
                chosen: Any = expressions.AlwaysTrue()
                if buckets != {None}:
                    chosen = expressions.In(BUCKET, buckets)
                rows = self._table.scan(row_filter=chosen).to_arrow()
                if cluster:
                    rows = rows.sort_by(KEY)
                self._table.overwrite(rows, chosen, snapshot_properties={STATE: state})
            drop_snapshots(self._catalog, self._table, KEPT_HOURS)

    def _buckets_to_rewrite(self, cluster: bool) -> Iterator[set[int | None]]:
        """Yield sets of buckets that are rewritten together: those with several small files.

        With `cluster` also those with several large files, because their rows must be sorted.

        The bucket of a table without buckets is None.
        """
        files: dict[int | None, list[int]] = {}
        parted = bool(self._table.spec().fields)
        for task in self._table.scan().plan_files():
            bucket = task.file.partition[0] if parted else None
            files.setdefault(bucket, []).append(task.file.file_size_in_bytes)
        found: set[int | None] = set()
        size = 0
        for bucket, sizes in files.items():
            small = sum(each < TARGET_FILE_BYTES // 2 for each in sizes)
            if len(sizes) < 2 or (small < 2 and not cluster):
                continue
            if sum(sizes) > REWRITTEN_BYTES_MAX:
                _log.warning(
                    "%s: %s has %d MiB in %d files, which is too much to be rewritten in memory; a"
                    " new table with more --buckets, or rewrite_data_files of Spark, can do it",
                    self.root,
                    "the table" if bucket is None else f"bucket {bucket}",
                    sum(sizes) >> 20,
                    len(sizes),
                )
                continue
            if found and size + sum(sizes) > REWRITTEN_BYTES_MAX:
                yield found
                found, size = set(), 0
            found.add(bucket)
            size += sum(sizes)
        if found:
            yield found

    def _forbid_retries(self) -> None:
        """Make a commit fail if the table has changed since it was read.

        pyiceberg else adds the rows to whatever is there then: a key could get a second row.
        """
        if not NO_RETRIES.items() <= self._table.properties.items():
            with self._table.transaction() as change:
                change.set_properties(NO_RETRIES)

    def _versions(self, chosen: Any) -> dict[str, str]:
        """Return key -> version of the rows that the table has of the chosen keys."""
        found = self._table.scan(row_filter=chosen, selected_fields=(KEY, VERSION)).to_arrow()
        names, versions = found.column(KEY).to_pylist(), found.column(VERSION).to_pylist()
        return dict(zip(names, versions, strict=True))

    def scan(self, columns: list[str] | None = None) -> Any:
        self._catalog.refresh(self._table)
        return self._table.scan(selected_fields=tuple(columns or ("*",))).to_arrow()


def open_keyed(
    uri: str,
    format: str | None = None,
    *,
    schema: Any = None,
    name: str = DEFAULT_NAME,
    catalog: str | None = None,
) -> KeyedTable:
    """Open the table at `uri`, or create it if there is none and `schema` is given."""
    found = "iceberg" if catalog or IcebergArchive.is_at(Storage(uri)) else None
    kind = format or found or "delta"
    if kind not in FORMATS:
        raise UsageError(f"'{kind}' is not a format of tables by key: use {', '.join(FORMATS)}")
    if kind == "iceberg":
        return IcebergKeyed(uri, schema, name=name, catalog=catalog)
    if found == "iceberg":
        raise UsageError(f"the table {uri} is iceberg, not {kind}")
    return DeltaKeyed(uri, schema)
