"""Delta tables by delta-rs: one transaction contains the files, (app, batch) and the offsets.

The mark is in the commit's own metadata. Every commit made here contains it, also a compaction, so
the newest commits have it even after older parts of the Delta log are deleted.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from epochmq.base.errors import NotFound, UsageError
from epochmq.base.needs import need
from epochmq.tables.archive_table import (
    PARTITION_COLUMNS,
    DataFile,
    Offsets,
    TableConflict,
    TransactionMark,
    batch_of,
    check_mark,
    check_owner,
    new_columns,
    plain,
)
from epochmq.tables.digests import TableDigests
from epochmq.tables.marked_table import MarkedTable
from epochmq.tables.storage import Storage, clear_errors

KEY = "epochmq"
"""The key of the mark in the commit metadata."""
COMMIT = "epochmq.commit"
"""The key of a commit's unique id: a writer whose answer was lost finds its own commit by it."""
LOG = "_delta_log"
_COMMIT = re.compile(r"/\d{20}\.(json|checkpoint\.)")
_LOOK_BACK = (8, 64, 4096)


class DeltaArchive(MarkedTable):
    """An archive's Delta table; implements `ArchiveTable`."""

    format = "delta"

    def __init__(self, uri: str, schema: Any = None, app: str = "") -> None:
        self._lib = need("deltalake", "lake")
        self.storage = Storage(uri)
        self.root = self.storage.root
        super().__init__()
        self._digests = TableDigests(self.storage, LOG)
        self._options = storage_options(self.root)
        self._table = self._open(schema, app)
        self._mark = self._find_mark()
        self._noted_version = -1
        """The last commit whose digest this object has stored."""

    @property
    def mark(self) -> TransactionMark | None:
        return self._mark

    @staticmethod
    def is_at(storage: Storage) -> bool:
        """Return whether there is a Delta table; a log without commits is from an interrupted
        start.
        """
        if not storage.exists(LOG):
            return False
        names = storage.fs.ls(storage.url(LOG), detail=False)
        return any(_COMMIT.search(str(name)) for name in names)

    def _open(self, schema: Any, app: str) -> Any:
        with clear_errors(self.root):
            if self.is_at(self.storage):
                return self._lib.DeltaTable(self.root, storage_options=self._options)
            if schema is None:
                raise NotFound(f"there is no Delta table at {self.root}")
            try:
                return self._lib.DeltaTable.create(
                    self.root,
                    schema=schema,
                    partition_by=list(PARTITION_COLUMNS),
                    name=app,
                    description="made by epochmq pipeline archive",
                    storage_options=self._options,
                )
            except need("deltalake.exceptions", "lake").CommitFailedError:
                # This run's own table, if the answer was lost, or another's: `last_batch` tells.
                return self._lib.DeltaTable(self.root, storage_options=self._options)

    def _find_mark(self) -> TransactionMark | None:
        for limit in _LOOK_BACK:
            history = self._table.history(limit)
            for commit in history:
                if KEY in commit:
                    return TransactionMark.from_json(commit[KEY])
            if len(history) < limit:
                break
        if self._table.file_uris():
            raise UsageError(
                f"{self.root} is a Delta table that no archive wrote last: name another one"
            )
        return None

    def last_batch(self, app: str) -> tuple[int, Offsets] | None:
        name = self._table.metadata().name
        if self._mark is None and name != app:
            raise UsageError(f"the table {self.root} was made for '{name}', not for '{app}'")
        check_owner(self._mark, app, self.root)
        return (self._mark.batch, self._mark.offsets) if self._mark else None

    def _look(self) -> None:
        """Load the newest version; raises `TableConflict` if another run has written a mark into
        it.

        Delta itself detects later commits by the transaction id.
        """
        with clear_errors(self.root):
            self._table.update_incremental()
            check_mark(self._find_mark(), self._mark, self.root)

    def _write(self, mark: TransactionMark, files: Sequence[DataFile]) -> None:
        self._transact([self._action(each) for each in files], mark, files)
        self._mark = mark

    def _transact(self, actions: list[Any], mark: TransactionMark, new: Sequence[DataFile]) -> None:
        self._digests.add(new)
        with self._committing() as commit:
            self._table.create_write_transaction(
                actions,
                mode="append",
                schema=self._table.schema(),
                partition_by=list(PARTITION_COLUMNS),
                commit_properties=self._properties(mark, commit),
            )
        self._table.update_incremental()
        self._add_digests()

    @contextmanager
    def _committing(self) -> Iterator[str]:
        """Yield an id for one commit; raise `TableConflict` if another run's commit came first.

        An object store may carry a commit out and lose its answer. delta-rs then tries again, and
        finds that the version is taken: by this commit.
        """
        failed = need("deltalake.exceptions", "lake").CommitFailedError
        commit = uuid.uuid4().hex
        try:
            with clear_errors(self.root):
                yield commit
        except failed as error:
            if not self._has_commit(commit):
                raise TableConflict(
                    f"another archive writes to {self.root}; this run stops ({error})"
                ) from error

    def _has_commit(self, commit: str) -> bool:
        with clear_errors(self.root):
            self._table.update_incremental()
            newest = self._table.history(_LOOK_BACK[0])
        return any(each.get(COMMIT) == commit for each in newest)

    def _add_digests(self) -> None:
        """Store the digests of the commits that were written since the last call."""
        last = self._table.version()
        names = []
        # The first call looks at the whole log by itself. Later a listing would cost more.
        for version in range(self._noted_version + 1, last + 1) if self._noted_version >= 0 else ():
            names.append(f"{version:020d}.json")
            checkpoint = f"{version:020d}.checkpoint.parquet"
            if self.storage.fs.exists(self.storage.url(f"{LOG}/{checkpoint}")):
                names.append(checkpoint)
        self._digests.add_metadata(names)
        self._noted_version = last

    def _properties(self, mark: TransactionMark, commit: str) -> Any:
        # Two runs that commit at the same time use the same transaction id: the later one fails.
        transaction = self._lib.Transaction(mark.app, mark.batch, int(time.time() * 1000))
        return self._lib.CommitProperties(
            custom_metadata={KEY: mark.as_json(), COMMIT: commit}, app_transactions=[transaction]
        )

    def _action(self, file: DataFile, *, is_new: bool = True) -> Any:
        """Return the add action of a file; `is_new` is False for rows that other files had
        before.
        """
        add = need("deltalake.transaction", "lake").AddAction
        return add(
            path=quote(file.path, safe="/=-_.~"),
            size=file.bytes,
            partition_values=_partition(file),
            modification_time=int(time.time() * 1000),
            data_change=is_new,
            stats=statistics(file),
        )

    def files(self) -> list[str]:
        self._table.update_incremental()
        return list(self._table.file_uris())

    def schema(self) -> Any:
        pa = need("pyarrow", "spark")
        return pa.schema(self._table.schema().to_arrow())

    def evolve(self, schema: Any) -> list[str]:
        self._look()
        fresh = new_columns(self.schema(), schema, self.root)
        if fresh:
            pa = need("pyarrow", "spark")
            fields = self._lib.Schema.from_arrow(pa.schema(fresh)).fields
            with self._committing() as commit:
                self._table.alter.add_columns(fields, commit_properties=self._kept(commit))
            self._table.update_incremental()
            self._add_digests()
        return [each.name for each in fresh]

    def _kept(self, commit: str) -> Any:
        return self._properties(self._mark, commit) if self._mark else None

    def data_files(self) -> list[DataFile]:
        self._table.update_incremental()
        return self._digests.added_to(self._own_files())

    def check_files(self) -> None:
        self._digests.check_metadata()
        super().check_files()

    def record_digests(self, files: Sequence[DataFile]) -> None:
        self._digests.add(files)

    def _exchange(
        self, mark: TransactionMark, gone: Sequence[DataFile], new: Sequence[DataFile]
    ) -> None:
        # delta-rs neither writes nor checks page checksums, so compaction does not use it.
        # Without new files the rows are gone, and readers that follow the table have to know.
        actions = [self._removal(each, is_change=not new) for each in gone]
        self._transact([*actions, *(self._action(each, is_new=False) for each in new)], mark, new)

    def _own_files(self) -> list[DataFile]:
        """Return the table's files that have an archive's file names, from Delta's log."""
        pa = need("pyarrow", "spark")
        rows = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [_told(row) for row in rows if batch_of(row["path"]) is not None]

    def _removal(self, file: DataFile, *, is_change: bool) -> Any:
        remove = need("deltalake.transaction", "lake").RemoveAction
        now = int(time.time() * 1000)
        return remove(file.path, is_change, now, file.bytes, _partition(file))

    def vacuum(self, older_than_hours: float) -> int:
        self._look()
        gone: list[str] = []  # unknown if the answer to the commit is lost
        with self._committing() as commit:
            gone = self._table.vacuum(
                retention_hours=int(older_than_hours),
                enforce_retention_duration=False,
                dry_run=False,
                full=True,  # including files that no transaction ever named
                commit_properties=self._kept(commit),
            )
        self._table.update_incremental()
        self._add_digests()
        self._digests.forget_missing()
        return len(gone)


def _partition(file: DataFile) -> dict[str, str]:
    return {"topic": file.topic, "storeDate": file.store_date}


def _told(row: dict[str, Any]) -> DataFile:
    """Convert a row of `get_add_actions` to a `DataFile`."""
    names = [name[4:] for name in row if name.startswith("min.")]
    stats = {
        name: [
            plain(row[f"min.{name}"]),
            plain(row[f"max.{name}"]),
            row.get(f"null_count.{name}"),
        ]
        for name in names
    }
    topic, day = row["partition.topic"], row["partition.storeDate"].isoformat()
    return DataFile(row["path"], row["num_records"], row["size_bytes"], topic, day, stats)


def statistics(file: DataFile) -> str:
    """Return Delta's statistics of a file as JSON, by which readers skip it."""
    # The partition columns have no bounds: Delta's log has their values.
    known = [each for each in file.stats.items() if each[0] not in PARTITION_COLUMNS]
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: low for name, (low, *_) in known if low is not None},
            "maxValues": {name: high for name, (_, high, *_) in known if high is not None},
            "nullCount": {name: nulls for name, (*_, nulls) in known if nulls is not None},
        }
    )


def storage_options(root: str) -> dict[str, str] | None:
    """Return the storage options of delta-rs, which reads credentials from the environment
    itself.
    """
    if not root.startswith(("s3://", "s3a://")):
        return None
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    # Without a conditional put, two commits of the same version could both succeed.
    options = {"aws_conditional_put": "etag"}
    if endpoint:
        options["AWS_ENDPOINT_URL"] = endpoint
        if endpoint.startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
    return options
