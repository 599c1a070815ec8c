"""Plain Parquet tables with a manifest: readable without a library, with the same guarantees."""

import base64
import hashlib
import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from epochmq.base.errors import EnvironmentFault, StoreDamaged, UsageError
from epochmq.base.needs import need
from epochmq.tables.archive_table import (
    DataFile,
    Offsets,
    TableConflict,
    TransactionMark,
    check_mark,
    check_owner,
    new_columns,
)
from epochmq.tables.marked_table import MarkedTable
from epochmq.tables.storage import Storage, clear_errors, sync_directory

# Manifest ------------------------------------------------------------------------------------
# The log of a plain Parquet table: `_manifest/<version>.json`, files that are never changed.  A
# version lists added and removed files; every 64th lists all files, so that a reader begins there.
# The transaction is the creation of a file that must not exist yet: of two writers one fails.


FOLDER = "_manifest"
WHOLE_EVERY = 64
FORMAT = 1
SEAL = "sha256"
FIELDS = frozenset({"format", "app", "schema", "mark", "add", "remove", "all"})
"""The fields of a version of the manifest, without its digest."""


@dataclass
class TableVersion:
    """The state of the table at one version of the manifest."""

    version: int
    app: str
    schema: str
    """Arrow's schema, serialised, in base 64."""
    mark: TransactionMark | None = None
    files: dict[str, DataFile] = field(default_factory=dict)


class Manifest:
    """Reads and appends versions of the manifest."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def exists(self) -> bool:
        """Return whether a table was created here."""
        return self.storage.exists(FOLDER)

    def versions(self) -> list[int]:
        """Return all kept versions, in order."""
        self.storage.fs.invalidate_cache()
        names = self.storage.fs.ls(self.storage.url(FOLDER), detail=False)
        plain = (name.rpartition("/")[2] for name in names)
        return sorted(int(name[:-5]) for name in plain if name[:-5].isdigit())

    def load(self, after: TableVersion | None = None) -> TableVersion:
        """Return the newest state; with `after`, an older state, only later versions are read."""
        versions = self.versions()
        if after is None:
            if not versions:
                raise UsageError(f"the manifest of {self.storage.root} is empty")
            after, versions = self._whole(versions)
        for version in versions:
            if version > after.version:
                after = _apply(after, self._read(version))
        return after

    def _whole(self, versions: list[int]) -> tuple[TableVersion, list[int]]:
        for version in reversed(versions):
            found = self._read(version)
            if "all" in found:
                files = {each["path"]: DataFile(**each) for each in found["all"]}
                state = TableVersion(version, found["app"], found["schema"], _mark(found), files)
                return state, versions
        raise UsageError(f"the manifest of {self.storage.root} has no beginning")

    def _read(self, version: int) -> dict[str, Any]:
        text = bytes(self.storage.fs.cat_file(self._url(version)))
        try:
            found = dict(json.loads(text))
        except (ValueError, TypeError):
            raise StoreDamaged(
                f"{self._url(version)} is damaged: it is not a JSON object"
            ) from None
        is_sealed = SEAL in found or found.keys() - FIELDS
        if is_sealed and text != sealed({key: found[key] for key in found if key != SEAL}):
            raise StoreDamaged(
                f"{self._url(version)} is damaged: its digest does not fit. Restore it from a copy"
                " of the table by `epochmq pipeline repair`"
            )
        if found.get("format") != FORMAT:
            raise EnvironmentFault(
                f"{self._url(version)} has format {found.get('format')}, {FORMAT} is understood"
            )
        return found

    def check(self) -> list[str]:
        """Return the paths of the kept versions that have changed since they were written."""
        changed = []
        for version in self.versions():
            try:
                self._read(version)
            except StoreDamaged:
                changed.append(f"{FOLDER}/{version:020d}.json")
        return changed

    def _url(self, version: int) -> str:
        return self.storage.url(f"{FOLDER}/{version:020d}.json")

    def append(
        self,
        state: TableVersion,
        mark: TransactionMark | None,
        add: Sequence[DataFile] = (),
        remove: Sequence[str] = (),
        schema: str | None = None,
    ) -> TableVersion:
        """Write the next version; raises `TableConflict` if another run has written it."""
        found = {
            "format": FORMAT,
            "app": state.app,
            "schema": schema or state.schema,
            "mark": mark.as_json() if mark else None,
            "add": [asdict(each) for each in add],
            "remove": list(remove),
        }
        version = state.version + 1
        after = _apply(
            TableVersion(version - 1, state.app, state.schema, None, dict(state.files)), found
        )
        if version % WHOLE_EVERY == 0:
            found["all"] = [asdict(each) for each in after.files.values()]
        self._create(version, sealed(found))
        return after

    def _create(self, version: int, text: bytes) -> None:
        url = self._url(version)
        try:
            with clear_errors(self.storage.root):
                if self.storage.local:
                    _create_whole(Path(url), text)
                else:
                    self.storage.fs.pipe_file(url, text, mode="create")
        except FileExistsError:
            if self._is_ours(url, text):
                return
            raise TableConflict(
                f"another archive writes to {self.storage.root}; this run stops,"
                " and nothing of its unfinished batch is in the table"
            ) from None

    def _is_ours(self, url: str, text: bytes) -> bool:
        """Return whether the version that is there is the one that we write.

        An object store may create a file and lose its answer; the next try finds the file.
        """
        if self.storage.local:
            return False
        with clear_errors(self.storage.root):
            self.storage.fs.invalidate_cache()
            return bool(self.storage.fs.cat_file(url) == text)


def sealed(found: dict[str, Any]) -> bytes:
    """Return a version as JSON with its own SHA-256; versions of older releases have none."""
    seal = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return json.dumps({**found, SEAL: seal}, sort_keys=True).encode()


def _create_whole(path: Path, text: bytes) -> None:
    """Create a file with all its bytes atomically; raises `FileExistsError` if the name is
    taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with draft.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)


def _apply(state: TableVersion, found: dict[str, Any]) -> TableVersion:
    gone = set(found["remove"])
    files = {path: each for path, each in state.files.items() if path not in gone}
    for each in found["add"]:
        file = each if isinstance(each, DataFile) else DataFile(**each)
        files[file.path] = file
    return TableVersion(state.version + 1, found["app"], found["schema"], _mark(found), files)


def _mark(found: dict[str, Any]) -> TransactionMark | None:
    return TransactionMark.from_json(found["mark"]) if found.get("mark") else None


# Parquet -------------------------------------------------------------------------------------


class ParquetArchive(MarkedTable):
    """An archive's plain Parquet table; implements `ArchiveTable`."""

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
        """Return whether there is a table with a manifest."""
        return storage.exists(FOLDER) and bool(Manifest(storage).versions())

    def _open(self, schema: Any, app: str) -> TableVersion:
        if self.is_at(self.storage):
            return self._manifest.load()
        if schema is None:
            raise UsageError(f"there is no Parquet table with a manifest at {self.root}")
        # Version 0 lists all (no) files, so a reader always finds a full list.
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
        """Load the newest version; raises `TableConflict` if another run has written a mark into
        it.
        """
        self._state = self._manifest.load(self._state)
        check_mark(self._state.mark, self._mark, self.root)

    def _write(self, mark: TransactionMark, files: Sequence[DataFile]) -> None:
        self._state = self._manifest.append(self._state, mark, files)
        self._mark = mark

    def files(self) -> list[str]:
        self._state = self._manifest.load(self._state)
        return [self.storage.url(path) for path in sorted(self._state.files)]

    def check_files(self) -> None:
        if changed := self._manifest.check():
            raise StoreDamaged(
                f"{self.root} is damaged: {', '.join(changed[:5])} are not what the archive wrote."
                " Restore them from a copy of the table by `epochmq pipeline repair`"
            )
        super().check_files()

    def data_files(self) -> list[DataFile]:
        self._state = self._manifest.load(self._state)
        return [self._state.files[path] for path in sorted(self._state.files)]

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

    def record_digests(self, files: Sequence[DataFile]) -> None:
        paths = [each.path for each in files]
        self._state = self._manifest.append(self._state, self._state.mark, files, paths)

    def _exchange(
        self, mark: TransactionMark, gone: Sequence[DataFile], new: Sequence[DataFile]
    ) -> None:
        paths = [each.path for each in gone]
        self._state = self._manifest.append(self._state, mark, new, paths)

    def vacuum(self, older_than_hours: float) -> int:
        self._state = self._manifest.load(self._state)
        return remove_unused(self.storage, set(self._state.files), older_than_hours)


def remove_unused(storage: Storage, used: set[str], older_than_hours: float) -> int:
    """Delete Parquet files that are not in `used` and are older; returns how many."""
    before = time.time() - older_than_hours * 3600
    gone = [path for path, (_, at) in storage.find().items() if path not in used and at <= before]
    for path in gone:
        storage.remove(path)
    return len(gone)


def _to_text(schema: Any) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
