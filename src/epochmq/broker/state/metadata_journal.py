"""Metadata journal (config/tables.journal): topic and group changes since the last JSON save.

A change writes one line, however many topics exist. The JSON files are written when the journal is
as large as they are, once a minute while it has lines, and at a clean stop (ADR 0070). RocketMQ
does not know the journal: after a crash it misses at most the changes of the last minute, after a
clean stop none.

A line is `<CRC-32>:<number>:<compact JSON>` and holds one set of changes in all tables:

    {"config/topics.json": {"dataVersion": {..}, "put": {name: row}, "drop": [name]}}

The first line is `{"journal": id, "base": number}`: the JSON files include all lines up to that
number. Each JSON file has the last number that it includes (`JournalMark` in
`model/saved_file.py`), so after a crash only the lines after that number are applied to its table.
The previous journal is kept as `.bak`, like the JSON files: a damaged JSON file is restored without
loss from its `.bak` and both journals.

A line that was unfinished at a power cut is the last line, without its newline or with zeros where
sectors are missing. Any other line with a wrong checksum is damage, and the broker does not start,
because the line was an acknowledged change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from epochmq.base.errors import EnvironmentFault, PeerError, StoreDamaged
from epochmq.base.ports import Disk, File
from epochmq.broker.state.saved_files import SavedTable, load_table
from epochmq.model.crc import crc32
from epochmq.model.saved_file import JournalMark, Loaded, report_replaced, seal
from epochmq.wire import json_tolerant

FILE = "config/tables.journal"
JOURNAL_BYTES_MIN = 256 * 1024
"""A journal smaller than this (bytes) is not folded because of its size."""

Changes = dict[str, Any]


class Journaled(SavedTable, Protocol):
    """A table whose changes go to the journal."""

    touched: dict[str, None]
    """Names of rows that changed since `pop_changes`."""

    def pop_changes(self) -> Changes:
        """Return the changes since the last call; they are not modified afterwards."""
        ...

    def give_back(self, changes: Changes) -> None:
        """Take back changes that could not be saved; `pop_changes` returns them again."""
        ...

    def apply_changes(self, changes: Changes) -> None:
        """Apply changes of `pop_changes` that were read from JSON."""
        ...

    def snapshot(self) -> Callable[[], bytes]:
        """Copy the present table; the returned function encodes it, in any thread."""
        ...


class JournalLine(msgspec.Struct, frozen=True):
    """One journal line: its number and the changes by table file."""

    number: int
    changes: dict[str, Changes]


class _Head(msgspec.Struct, frozen=True):
    journal: str
    base: int


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One journal file as it was read."""

    id: str
    base: int
    lines: Sequence[JournalLine]
    ragged: bool = False
    """Whether it ends in an unfinished line, to which none can be added."""
    bytes: int = 0

    @property
    def last(self) -> int:
        return self.lines[-1].number if self.lines else self.base


def format_line(number: int, content: object) -> bytes:
    """One line of the file. Spaces and `@` are escaped: one flipped bit never makes them zero."""
    text = json_tolerant.dumps(content).replace(b" ", b"\\u0020").replace(b"@", b"\\u0040")
    body = b"%d:%s" % (number, text)
    return b"%08x:%s\n" % (crc32(body), body)


def parse_generation(path: str, data: bytes) -> JournalFile:
    """Read a journal file; `StoreDamaged` names the line that is damaged."""
    *whole, rest = data.split(b"\n")
    lines = [_parse_line(line) for line in whole]
    if rest:
        last = _parse_line(rest) or _parse_line(rest[:-1])  # the newline itself may be damaged
        lines += [] if last is None else [last]
    is_torn = bool(lines) and lines[-1] is None and b"\0" in whole[-1]
    if is_torn:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if line is None:
            raise StoreDamaged(_damaged(path, number))
    if not lines:
        raise StoreDamaged(_damaged(path, 1))
    (_, first), *entries = [line for line in lines if line is not None]
    try:
        head = msgspec.convert(first, _Head)
        found = [
            JournalLine(number, msgspec.convert(e, dict[str, Changes])) for number, e in entries
        ]
    except msgspec.ValidationError as error:
        raise StoreDamaged(f"{path}: {error}") from None
    return JournalFile(head.journal, head.base, found, bool(rest) or is_torn, len(data))


def _parse_line(line: bytes) -> tuple[int, Any] | None:
    crc, _, body = line.partition(b":")
    number, _, text = body.partition(b":")
    if crc != b"%08x" % crc32(body) or not number.isdigit():
        return None
    try:
        return int(number), json_tolerant.loads(text)
    except PeerError:
        return None


def _damaged(path: str, line: int) -> str:
    if line == 1:
        return (
            f"line 1 of {path} is damaged: what changed in topics and groups since their JSON files"
            " were written cannot be read. Restore the file from a replica's copy of this broker,"
            " or move it away to start without these changes"
        )
    return (
        f"line {line} of {path} is damaged: a change of topics or groups that was acknowledged."
        " Remove the line to start without this change, and make the change again if it is missing"
    )


@dataclass
class LoadResult:
    """The result of loading the tables at a start."""

    replaced: int = 0
    """Number of tables that were restored from their `.bak`."""
    replayed: int = 0
    """Number of journal lines that the JSON files did not include."""
    loaded: dict[str, Loaded | None] = field(default_factory=dict)


class TableJournal:
    """Reads and writes the journal. All calls block; make them one at a time, `load` first."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._id = ""
        self._base = 0
        self._end = 0
        self._file: File | None = None
        self.number = 0
        """Of the last line."""
        self.folded_bytes = 0
        """Size of the JSON files when they were last written."""
        self.ready = False
        """Whether a line may be added; else the JSON files must be written first."""

    @property
    def has_lines(self) -> bool:
        """Whether there are changes that the JSON files do not have."""
        return self.number > self._base

    @property
    def should_fold(self) -> bool:
        """Whether it is time to write the JSON files, or has to be."""
        return not self.ready or self._end > max(JOURNAL_BYTES_MIN, self.folded_bytes)

    # Reading ---------------------------------------------------------------------------------

    def load(self, tables: Sequence[Journaled], *, repair: bool = True) -> LoadResult:
        """Fill the tables from their files and the journal.

        With `repair`, damage that costs nothing is reported and its file kept aside. Raises
        `StoreDamaged`, which says what to do, where a change would be missing.
        """
        current, before = self._read(FILE), None
        found = LoadResult()
        for table in tables:
            loaded = load_table(self._disk, table)
            found.loaded[table.file] = loaded
            mark = loaded.mark if loaded is not None else None
            if mark is not None and current is not None and mark.number < current.base:
                before = before or self._read_previous()
            lines = _missing(mark, current, before)
            if lines is None:
                lines = self._unknown(table.file, loaded, current)
            for line in lines:
                if table.file in line.changes:
                    self._apply(table, line)
            found.replayed = max(found.replayed, len(lines))
            if loaded is not None and loaded.replaced:
                found.replaced += 1
                exact = _missing(mark, current, before) is not None
                lost = "nothing is missing" if exact else "the changes after it are lost"
                if repair:
                    report_replaced(self._disk, table.file, loaded.replaced, lost)
        if current is not None and repair:
            self._resume(current, found)
        return found

    def _resume(self, current: JournalFile, found: LoadResult) -> None:
        marks = [loaded.mark if loaded is not None else None for loaded in found.loaded.values()]
        own = [mark.number for mark in marks if mark is not None and mark.journal == current.id]
        self._id, self._base, self._end = current.id, current.base, current.bytes
        # A crash between the JSON files and the new journal: the files are further than this one.
        self.number = max(current.last, *own, 0)
        self.ready = (
            not (current.ragged or found.replaced)
            and len(own) == len(marks)
            and min(own) >= current.base
        )

    def _read(self, path: str) -> JournalFile | None:
        data = self._disk.read_file(path)
        return None if not data else parse_generation(path, data)

    def _read_previous(self) -> JournalFile | None:
        """The one before; damage in it only means that it is of no use."""
        try:
            return self._read(f"{FILE}.bak")
        except StoreDamaged:
            return None

    def _unknown(
        self, path: str, loaded: Loaded | None, current: JournalFile | None
    ) -> list[JournalLine]:
        """Changes for a file that is not of this journal's making: there must be none."""
        waiting = [] if current is None else [x for x in current.lines if path in x.changes]
        if not waiting or (loaded is not None and loaded.replaced):
            return []
        names = [name for line in waiting for name in line.changes[path].get("put", {})]
        what = "is not there" if loaded is None else "was not written by this broker, or edited"
        raise StoreDamaged(
            f"{path} {what}, but {FILE} has changes after the file that this broker wrote before"
            f" (of {', '.join(dict.fromkeys(names[:20])) or 'nothing that is left'}). Restore that"
            f" file; or move {FILE} away to go on with {path} as it is, and make these changes"
            " again"
        )

    @staticmethod
    def _apply(table: Journaled, line: JournalLine) -> None:
        try:
            table.apply_changes(line.changes[table.file])
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{FILE}: change {line.number} cannot be read: {error}") from None

    # Writing ---------------------------------------------------------------------------------

    def append(self, changes: Mapping[str, Changes]) -> None:
        """Add one line and sync it; after an error the next call must be `fold`."""
        try:
            if self._file is None:
                self._file = self._disk.open(FILE)
            line = format_line(self.number + 1, changes)
            self._file.write(self._end, line)
            self._file.sync()
        except EnvironmentFault:
            self.ready = False
            raise
        self.number += 1
        self._end += len(line)

    def fold(self, contents: Mapping[str, Callable[[], bytes]], wall: int) -> None:
        """Write all tables as JSON and begin a new journal; `wall` names the very first one."""
        self.ready = False
        self.close()
        self._id = self._id or f"{wall:x}"
        self.number += 1  # what failed to be added may yet be in the file: its number is used up
        mark, size = JournalMark(self._id, self.number), 0
        for path, encode in contents.items():
            data = seal(encode(), mark)
            size += len(data)
            self._disk.write_file(path, data, backup=True)
        head = format_line(self.number, {"journal": self._id, "base": self.number})
        self._disk.write_file(FILE, head, backup=True)
        self._base, self._end = self.number, len(head)
        self.folded_bytes, self.ready = size, True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _missing(
    mark: JournalMark | None, current: JournalFile | None, before: JournalFile | None
) -> list[JournalLine] | None:
    """The lines that a file with `mark` does not include; None when that cannot be told."""
    if mark is None or current is None or mark.journal != current.id:
        return None
    lines = list(current.lines)
    if mark.number < current.base:
        if before is None or before.id != current.id or before.base > mark.number:
            return None
        lines = [*before.lines, *lines]
    return [line for line in lines if line.number > mark.number]
