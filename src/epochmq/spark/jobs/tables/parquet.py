"""Plain Parquet with a manifest: no library needed to read it, and the same guarantees."""

import base64
import time
from collections.abc import Sequence
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.spark.jobs.needs import need
from epochmq.spark.jobs.tables.archive_table import (
    DataFile,
    MarkedTable,
    Offsets,
    TransactionMark,
    check_mark,
    check_owner,
    new_columns,
)
from epochmq.spark.jobs.tables.manifest import FOLDER, Manifest, TableVersion
from epochmq.spark.jobs.tables.rewriting import bins, check_digests, rewrite
from epochmq.spark.jobs.tables.storage import Storage


class ParquetArchive(MarkedTable):
    """See `base.Table`."""

    format = "parquet"

    def __init__(self, uri: str, schema: Any = None, app: str = "") -> None:
        self.storage = Storage(uri)
        self.root = self.storage.root
        super().__init__()
        self._manifest = Manifest(self.storage)
        self._state = self._open(schema, app)
        self._mark = self._state.mark

    @property
    def mark(self) -> TransactionMark | None:
        return self._state.mark

    @staticmethod
    def is_at(storage: Storage) -> bool:
        """Whether a table with a manifest is there."""
        return storage.exists(FOLDER) and bool(Manifest(storage).versions())

    def _open(self, schema: Any, app: str) -> TableVersion:
        if self.is_at(self.storage):
            return self._manifest.load()
        if schema is None:
            raise UsageError(f"there is no Parquet table with a manifest at {self.root}")
        # Version 0 lists all (no) files, so a reader always finds a beginning.
        return self._manifest.append(TableVersion(-1, app, _to_text(schema)), None)

    def last_batch(self, app: str) -> tuple[int, Offsets] | None:
        mark = self._mark
        if self._state.app != app:
            raise UsageError(
                f"the table {self.root} belongs to the archive '{self._state.app}', not to '{app}':"
                " name another table, or go on with --app of its owner"
            )
        check_owner(mark, app, self.root)
        return (mark.batch, mark.offsets) if mark else None

    def _look(self) -> None:
        """Take up the newest version; `TableConflict` if another run wrote a mark into it."""
        self._state = self._manifest.load(self._state)
        check_mark(self._state.mark, self._mark, self.root)

    def _write(self, mark: TransactionMark, files: Sequence[DataFile]) -> None:
        self._state = self._manifest.append(self._state, mark, files)
        self._mark = mark

    def files(self) -> list[str]:
        self._state = self._manifest.load(self._state)
        return [self.storage.url(path) for path in sorted(self._state.files)]

    def check_files(self) -> None:
        """`StoreDamaged` when a file's bytes are not those that were written."""
        self._state = self._manifest.load(self._state)
        check_digests(self.storage, self._state.files.values())

    def schema(self) -> Any:
        pa = need("pyarrow", "spark")
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self._state.schema)))

    def evolve(self, schema: Any) -> list[str]:
        have = self.schema()
        fresh = new_columns(have, schema, self.root)
        if fresh:
            pa = need("pyarrow", "spark")
            wider = _to_text(pa.schema([*have, *fresh]))
            self._state = self._manifest.append(self._state, self._state.mark, schema=wider)
        return [each.name for each in fresh]

    def compact(self) -> dict[str, int]:
        state = self._manifest.load(self._state)
        batch = state.mark.batch if state.mark else 0
        old = bins(state.files.values())
        new = [rewrite(self.storage, each, self.schema(), batch) for each in old]
        gone = [file.path for each in old for file in each]
        if new:
            state = self._manifest.append(state, state.mark, new, gone)
        self._state = state
        return {"removed": len(gone), "added": len(new)}

    def vacuum(self, older_than_hours: float) -> int:
        self._state = self._manifest.load(self._state)
        return remove_unused(self.storage, set(self._state.files), older_than_hours)


def remove_unused(storage: Storage, used: set[str], older_than_hours: float) -> int:
    """Delete Parquet files that are not in `used` and have not changed for so long."""
    before = time.time() - older_than_hours * 3600
    gone = [path for path, (_, at) in storage.find().items() if path not in used and at <= before]
    for path in gone:
        storage.remove(path)
    return len(gone)


def _to_text(schema: Any) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
