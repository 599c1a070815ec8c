"""Snapshot tables, which are replaced as a whole: readers see the old or the new snapshot.

Spark writes Parquet files next to the target, then one commit makes them the snapshot. In Delta the
commit is an overwriting transaction. In Parquet each snapshot has its own directory, and
`_current.json`, which is replaced atomically, names the current one.
"""

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochmq.base.errors import NotFound, UsageError
from epochmq.base.needs import need
from epochmq.tables.storage import clear_errors, is_local, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = ("delta", "parquet")
CURRENT = "_current.json"
KEY = "epochmq.snapshot"


@dataclass(frozen=True)
class SnapshotResult:
    rows: int
    bytes: int


class SnapshotTarget:
    """A directory of this machine, or of storage that all executors see under the same path."""

    def __init__(self, uri: str, format: str | None = None) -> None:
        if not uri.strip() or not is_local(uri):
            raise UsageError(f"'{uri}' is not a directory; snapshots are written to directories")
        self.path = local_path(uri)
        self.root = str(self.path)
        if format is not None and format not in FORMATS:
            raise UsageError(f"'{format}' is not a format of snapshots: use {', '.join(FORMATS)}")
        found = format_at(self.path)
        if format and found and format != found:
            raise UsageError(f"the snapshot {uri} is {found}, not {format}")
        self.format = format or found or "parquet"

    def write(self, frame: "DataFrame", about: Mapping[str, Any]) -> SnapshotResult:
        """Make `frame` the snapshot; `about` is stored with it."""
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"snapshot-{uuid.uuid4().hex[:12]}"
        draft = self.path / f"_{name}"
        try:
            with clear_errors(self.root):
                frame.write.parquet(f"file://{draft}")
            files = sorted(draft.glob("*.parquet"))
            done = SnapshotResult(_rows(files), sum(file.stat().st_size for file in files))
            text = json.dumps({**about, "rows": done.rows}, sort_keys=True)
            if self.format == "delta":
                _commit_delta(self.root, files, text)
            else:
                _commit_parquet(self.path, draft, name, text)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return done


def format_at(path: Path) -> str | None:
    """Return the format of an existing snapshot; raises `UsageError` for other files."""
    if (path / "_delta_log").is_dir():
        return "delta"
    if (path / CURRENT).is_file():
        return "parquet"
    others = [each.name for each in path.iterdir()] if path.is_dir() else []
    strange = [name for name in others if not name.startswith(("_snapshot-", "snapshot-"))]
    if strange:
        raise UsageError(f"{path} holds other files ({strange[0]}): name an empty place")
    return None


def _rows(files: list[Path]) -> int:
    parquet = need("pyarrow.parquet", "spark")
    return sum(parquet.read_metadata(file).num_rows for file in files)


def _commit_delta(root: str, files: list[Path], about: str) -> None:
    lib, dataset = need("deltalake", "lake"), need("pyarrow.dataset", "spark")
    found = dataset.dataset([str(file) for file in files], format="parquet")
    with clear_errors(root):
        lib.write_deltalake(
            root,
            found.scanner().to_reader(),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=lib.CommitProperties(custom_metadata={KEY: about}),
        )


def _commit_parquet(path: Path, draft: Path, name: str, about: str) -> None:
    """Move the directory into place, then name it in `_current.json`.

    The previous snapshot stays for its readers; older ones are deleted.
    """
    old = _current(path)
    os.replace(draft, path / name)
    temp = path / f"_{name}.json"
    with temp.open("w") as file:
        json.dump({"directory": name, **json.loads(about)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path / CURRENT)
    for each in path.glob("snapshot-*"):
        if each.name not in (name, old):
            shutil.rmtree(each, ignore_errors=True)


def _current(path: Path) -> str | None:
    try:
        found = json.loads((path / CURRENT).read_text())["directory"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path / CURRENT} cannot be read: it is not a snapshot's") from None
    return str(found)


def snapshot_files(uri: str) -> list[str]:
    """Return the Parquet files of the current snapshot; raises `NotFound` when there is none."""
    path = local_path(uri)
    if format_at(path) == "delta":
        return [str(each) for each in need("deltalake", "lake").DeltaTable(str(path)).file_uris()]
    name = _current(path)
    if name is None:
        raise NotFound(f"there is no snapshot at {uri}")
    return sorted(str(each) for each in (path / name).glob("*.parquet"))
