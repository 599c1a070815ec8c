"""Tables of the broker as small JSON files under config/: written whole, read by their `.bak` too.

The files carry the checksum of `model/saved_file.py`. The journal and number in it say which
changes of `config/tables.journal` the file includes (`state/metadata_journal.py`); both are 0
for tables without a journal.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from epochmq.base.ports import Disk
from epochmq.model.saved_file import FIELD, Loaded, load_saved, seal
from epochmq.wire import json_tolerant


class SavedFile(Protocol):
    """What lives in one file of its own."""

    file: str
    dirty: bool

    def encode(self) -> bytes:
        """The whole of it in upstream's shape."""
        ...


class SavedTable(SavedFile, Protocol):
    """A table that is standard JSON in its file."""

    def load(self, content: dict[str, Any]) -> None:
        """Take over what a file holds; raises `msgspec.ValidationError` when the shape is wrong."""
        ...


def encode_file(table: SavedFile) -> bytes:
    """The file of a table as it is now; JSON gets its checksum, other forms have their own."""
    data = table.encode()
    return seal(data) if data.startswith(b"{") else data


def load_table(disk: Disk, table: SavedTable) -> Loaded | None:
    """Fill `table` from its file, or from the `.bak` beside it; None when there is neither.

    Raises `StoreDamaged` as `load_saved` does: going on with an empty table would delete the
    operator's topics at the next write.
    """
    loaded = load_saved(disk, table.file, _parse, table.load, what="the broker's metadata")
    if loaded is not None:
        table.dirty = loaded.damaged
    return loaded


def _parse(data: bytes) -> dict[str, Any]:
    content = json_tolerant.loads(data)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    content.pop(FIELD, None)
    return content


def save_dirty(disk: Disk, tables: Iterable[SavedTable]) -> int:
    """Write every dirty table atomically, the previous version kept as `.bak`; how many."""
    written = 0
    for table in tables:
        if table.dirty:
            disk.write_file(table.file, encode_file(table), backup=True)
            table.dirty = False
            written += 1
    return written


def named_rows(rows: Any, field: str) -> Any:
    """Return the rows of a table with their key as `field`, whatever a file has there; {} for
    None."""
    if isinstance(rows, dict):
        return {
            key: {**row, field: key} if isinstance(row, dict) else row for key, row in rows.items()
        }
    return {} if rows is None else rows


def readable(content: object) -> bytes:
    """`content` as indented standard JSON, for files that people read and edit."""
    return msgspec.json.format(json_tolerant.dumps(content), indent=2)
