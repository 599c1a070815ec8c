"""The log of a plain Parquet table: `_manifest/<version>.json`, each written once for good.

A version says what it adds and removes; every 64th lists all files, so that a reader begins there.
Creating a file that must not exist yet is the transaction: of two writers one fails.
"""

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.spark.jobs.tables.archive_table import DataFile, TableConflict, TransactionMark
from epochmq.spark.jobs.tables.storage import Storage, clear_errors, sync_directory

FOLDER = "_manifest"
WHOLE_EVERY = 64
FORMAT = 1


@dataclass
class TableVersion:
    """What the manifest says at one version."""

    version: int
    app: str
    schema: str
    """Arrow's schema, serialised, in base 64."""
    mark: TransactionMark | None = None
    files: dict[str, DataFile] = field(default_factory=dict)


class Manifest:
    """Reads and appends versions."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def exists(self) -> bool:
        """Whether a table was made here."""
        return self.storage.exists(FOLDER)

    def versions(self) -> list[int]:
        """All that are kept, in order."""
        self.storage.fs.invalidate_cache()
        names = self.storage.fs.ls(self.storage.url(FOLDER), detail=False)
        plain = (name.rpartition("/")[2] for name in names)
        return sorted(int(name[:-5]) for name in plain if name[:-5].isdigit())

    def load(self, after: TableVersion | None = None) -> TableVersion:
        """The newest state; with an older one at hand only what came after it is read."""
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
        try:
            found = json.loads(self.storage.fs.cat_file(self._url(version)))
        except ValueError:
            raise EnvironmentFault(f"{self._url(version)} is damaged: it is no JSON") from None
        if found.get("format") != FORMAT:
            raise EnvironmentFault(
                f"{self._url(version)} has format {found.get('format')}, {FORMAT} is understood"
            )
        return dict(found)

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
        """The next version; `TableConflict` if somebody else has written it."""
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
        self._create(version, json.dumps(found, sort_keys=True).encode())
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
            raise TableConflict(
                f"another archive writes to {self.storage.root}; this run stops,"
                " and nothing of its unfinished batch is in the table"
            ) from None


def _create_whole(path: Path, text: bytes) -> None:
    """All bytes under the name or no such name; `FileExistsError` if it is taken."""
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
