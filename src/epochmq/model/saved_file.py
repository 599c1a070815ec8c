"""A small JSON file with a checksum; it is written as a whole, and its `.bak` is the fallback.

The checksum is an additional last field. RocketMQ ignores it when it reads the file, and drops it
when it writes the file:

    "epochmqSaved": "<journal>-<number>-<CRC-32 of the file with these eight digits as zeros>"

`journal` and `number` say which changes of a journal the file includes; both are 0 for a file
without a journal. A file without the field was written by RocketMQ, by an older version or by a
person, and is accepted. A file with a wrong checksum was damaged, or edited by a person who left
the field in it. The two cases cannot be distinguished, so the server does not start with it.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from epochmq.base.errors import PeerError, StoreDamaged
from epochmq.base.ports import Disk
from epochmq.model.crc import crc32

FIELD = "epochmqSaved"
_SAVED = re.compile(rb'"epochmqSaved": ?"([0-9a-z]+)-(\d+)-([0-9a-f]{8})"')
_ZEROS = b"00000000"

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalMark:
    """Which changes of which journal a file includes."""

    journal: str = "0"
    number: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where the content of a table came from."""

    mark: JournalMark | None = None
    """None for a file without the field."""
    replaced: str = ""
    """Why the `.bak` was used instead of the file; empty if the file was used."""
    damaged: bool = False
    """The file exists and cannot be read; the `.bak` was used."""


class Edited(ValueError):
    """A well-formed file whose checksum belongs to another content."""


def seal(data: bytes, mark: JournalMark = JournalMark()) -> bytes:
    """Return `data`, a JSON object, with the checksum field as its last one."""
    body = data.rstrip()[:-1].rstrip()
    comma = b"" if body.endswith(b"{") else b","
    head = b'%s%s\n  "epochmqSaved": "%s-%d-' % (body, comma, mark.journal.encode(), mark.number)
    tail = b'"\n}'
    return b"%s%08x%s" % (head, crc32(head + _ZEROS + tail), tail)


def check_seal(data: bytes) -> JournalMark | None:
    """Return the mark in `data`, or None without one. Raises `Edited` if the checksum is wrong."""
    all_found = list(_SAVED.finditer(data))
    if not all_found:
        return None
    found = all_found[-1]  # names in the table may look like the field, which is the last match
    at, end = found.span(3)
    if crc32(data[:at] + _ZEROS + data[end:]) != int(found[3], 16):
        raise Edited
    return JournalMark(found[1].decode(), int(found[2]))


def load_saved(
    disk: Disk,
    path: str,
    parse: Callable[[bytes], T],
    fill: Callable[[T], None],
    *,
    what: str,
    source: str = "a replica",
) -> Loaded | None:
    """Load a file, or the `.bak` next to it, and pass its content to `fill`.

    A file may be cut short, because a Java 5.3 broker rewrites it in place and may have died then.
    In this case the `.bak` is loaded and `Loaded.replaced` says why; the caller reports it
    (`report_replaced`).

    Args:
        disk: the disk.
        path: path of the file.
        parse: decodes the content; raises `PeerError` or `ValueError` for a wrong form.
        fill: takes the decoded content; may raise the same.
        what: name of the content in error messages.
        source: from where the file can be restored, in error messages.

    Returns:
        Where the content came from; None if there is neither file.

    Raises:
        StoreDamaged: nothing can be read, or a well-formed file has a wrong checksum.
    """
    problems: list[str] = []
    for name in (path, f"{path}.bak"):
        data = disk.read_file(name)
        if not data or not data.strip():
            continue
        try:
            content = parse(data)
            mark = check_seal(data)
            fill(content)
        except Edited:
            if problems:  # the file itself is malformed; this is its .bak, which no person edits
                problems.append(f"{name}: its checksum ({FIELD}) is wrong")
                continue
            raise StoreDamaged(edited(name, source)) from None
        except (PeerError, ValueError) as error:
            problems.append(f"{name}: {error}")
            continue
        missing = "" if name == path else "it is missing or empty"
        return Loaded(mark, problems[0] if problems else missing, bool(problems))
    if problems:
        raise StoreDamaged(
            f"cannot read {what}: {'; '.join(problems)}; restore the file from {source}, or move"
            " it and its .bak away to start with an empty table"
        )
    return None


def edited(path: str, source: str = "a replica") -> str:
    """Return the error message for a well-formed file with a wrong checksum."""
    return (
        f"{path} does not match its checksum ({FIELD}): it was damaged, or edited by hand. If its"
        f" content is right, remove the line with {FIELD} (and the comma before it) and start"
        f" again; if not, restore the file from {source} or from {path}.bak, which is one"
        " save older"
    )


def report_replaced(disk: Disk, path: str, replaced: str, lost: str) -> None:
    """Log an error that a table came from its `.bak`, and keep the damaged file as `.damaged`."""
    data = disk.read_file(path)
    if data is not None:
        disk.write_file(f"{path}.damaged", data)
        disk.remove(path)  # otherwise the next save would keep it as the .bak
    kept = f"; the damaged file is kept as {path}.damaged" if data is not None else ""
    log.error(
        "%(path)s is damaged (%(reason)s) and was replaced by %(path)s.bak: %(lost)s%(kept)s",
        {"path": path, "reason": replaced, "lost": lost, "kept": kept},
    )
