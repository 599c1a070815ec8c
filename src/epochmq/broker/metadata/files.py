"""Small JSON files under config/: read with a fallback to `.bak`, written whole (store.md 3.1)."""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from epochmq.base.errors import PeerError, StoreDamaged
from epochmq.base.ports import Disk
from epochmq.wire import json_tolerant


class Saved(Protocol):
    """What lives in one file of its own."""

    file: str
    dirty: bool

    def encode(self) -> bytes:
        """The whole of it in upstream's shape."""
        ...


class Table(Saved, Protocol):
    """A table that is standard JSON in its file."""

    def load(self, content: dict[str, Any]) -> None:
        """Take over what a file holds; raises `msgspec.ValidationError` when the shape is wrong."""
        ...


def load_table(disk: Disk, table: Table) -> bool:
    """Fill `table` from its file, or from the `.bak` beside it; False when there is neither.

    A file may be cut short: a Java 5.3 broker rewrites it in place and may have died in it.
    Raises `StoreDamaged` when something is there but nothing of it can be read: going on with an
    empty table would delete the operator's topics at the next write.
    """
    problems = []
    for path in (table.file, f"{table.file}.bak"):
        data = disk.read_file(path)
        if not data or not data.strip():
            continue
        try:
            table.load(_parse(data))
        except (PeerError, ValueError) as error:
            problems.append(f"{path}: {error}")
            continue
        table.dirty = bool(problems)
        return True
    if problems:
        raise StoreDamaged(
            "cannot read the broker's metadata: " + "; ".join(problems) + "; restore the file"
            " from a replica or move it away to start with an empty table"
        )
    return False


def _parse(data: bytes) -> dict[str, Any]:
    content = json_tolerant.loads(data)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def save_dirty(disk: Disk, tables: Iterable[Table]) -> int:
    """Write every dirty table atomically, the previous version kept as `.bak`; how many."""
    written = 0
    for table in tables:
        if table.dirty:
            disk.write_file(table.file, table.encode(), backup=True)
            table.dirty = False
            written += 1
    return written


def readable(content: object) -> bytes:
    """`content` as indented standard JSON, for files that people read and edit."""
    return msgspec.json.format(json_tolerant.dumps(content), indent=2)
