"""Small JSON files under config/: written whole with a checksum, read with a fallback to `.bak`.

The checksum is a last field of our own, which RocketMQ skips when it reads the file and leaves out
when it writes it:

    "epochmqSaved": "<journal>-<number>-<CRC-32 of the file with these eight digits as zeros>"

`journal` and `number` say which changes of `config/tables.journal` the file includes
(`metadata/journal.py`); both are 0 for tables without a journal. A file without the field was
written by RocketMQ, by an older version or by a person, and is believed. A file whose checksum is
wrong was damaged, or edited by somebody who left the field in it: nobody can tell which, so the
broker does not start with it.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from epochmq.base.errors import PeerError, StoreDamaged
from epochmq.base.ports import Disk
from epochmq.model.crc import crc32
from epochmq.wire import json_tolerant

FIELD = "epochmqSaved"
_SAVED = re.compile(rb'"epochmqSaved": ?"([0-9a-z]+)-(\d+)-([0-9a-f]{8})"')
_ZEROS = b"00000000"

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class Mark:
    """Which changes of which journal a file includes."""

    journal: str = "0"
    number: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where a table came from."""

    mark: Mark | None = None
    """None for a file without our field."""
    replaced: str = ""
    """Why the file was replaced by its `.bak`; empty when it was not."""


class Edited(ValueError):
    """A file is well-formed, but its checksum belongs to another content."""


def seal(data: bytes, mark: Mark = Mark()) -> bytes:
    """`data`, a JSON object, with our field as its last one."""
    body = data.rstrip()[:-1].rstrip()
    comma = b"" if body.endswith(b"{") else b","
    head = b'%s%s\n  "epochmqSaved": "%s-%d-' % (body, comma, mark.journal.encode(), mark.number)
    tail = b'"\n}'
    return b"%s%08x%s" % (head, crc32(head + _ZEROS + tail), tail)


def check_seal(data: bytes) -> Mark | None:
    """What our field in `data` says, None without one; `Edited` when the checksum is wrong."""
    all_found = list(_SAVED.finditer(data))
    if not all_found:
        return None
    found = all_found[-1]  # a name inside the table may look like it: the field is the last one
    at, end = found.span(3)
    if crc32(data[:at] + _ZEROS + data[end:]) != int(found[3], 16):
        raise Edited
    return Mark(found[1].decode(), int(found[2]))


def encode_file(table: Saved) -> bytes:
    """The file of a table as it is now; JSON gets its checksum, other forms have their own."""
    data = table.encode()
    return seal(data) if data.startswith(b"{") else data


def load_table(disk: Disk, table: Table) -> Loaded | None:
    """Fill `table` from its file, or from the `.bak` beside it; None when there is neither.

    A file may be cut short: a Java 5.3 broker rewrites it in place and may have died in it. Then
    the `.bak` is loaded, `Loaded.replaced` and an ERROR line say so, and the damaged file is kept.
    Raises `StoreDamaged` when something is there but nothing of it can be read, as going on with an
    empty table would delete the operator's topics at the next write; and for a well-formed file
    whose checksum is wrong.
    """
    problems: list[str] = []
    for path in (table.file, f"{table.file}.bak"):
        data = disk.read_file(path)
        if not data or not data.strip():
            continue
        try:
            content = _parse(data)
            mark = check_seal(data)
            content.pop(FIELD, None)
            table.load(content)
        except Edited:
            if problems:  # the file itself is malformed: this is its .bak, which nobody edits
                problems.append(f"{path}: its checksum ({FIELD}) is wrong")
                continue
            raise StoreDamaged(edited(path)) from None
        except (PeerError, ValueError) as error:
            problems.append(f"{path}: {error}")
            continue
        table.dirty = bool(problems)
        missing = "" if path == table.file else "it is missing or empty"
        return Loaded(mark, problems[0] if problems else missing)
    if problems:
        raise StoreDamaged(
            "cannot read the broker's metadata: " + "; ".join(problems) + "; restore the file"
            " from a replica or move it away to start with an empty table"
        )
    return None


def edited(path: str) -> str:
    """What to do about a file that is well-formed and has a wrong checksum."""
    return (
        f"{path} does not match its checksum ({FIELD}): it was damaged, or edited by hand. If its"
        f" content is right, remove the line with {FIELD} (and the comma before it) and start"
        f" again; if not, restore the file from a replica or from {path}.bak, which is one save"
        " older"
    )


def report_replaced(disk: Disk, path: str, replaced: str, lost: str) -> None:
    """Say loudly that a table came from its `.bak`, and keep the damaged file aside."""
    data = disk.read_file(path)
    if data is not None:
        disk.write_file(f"{path}.damaged", data)
        disk.remove(path)  # or the next save would make a .bak of it
    log.error(
        "%s is damaged (%s) and was replaced by %s.bak: %s; the damaged file is kept as %s.damaged",
        path,
        replaced,
        path,
        lost,
        path,
    )


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
            disk.write_file(table.file, encode_file(table), backup=True)
            table.dirty = False
            written += 1
    return written


def readable(content: object) -> bytes:
    """`content` as indented standard JSON, for files that people read and edit."""
    return msgspec.json.format(json_tolerant.dumps(content), indent=2)
