"""What an archive needs of a table, whatever its format: `ArchiveTable`, its files, its last
mark."""

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from epochmq.base.errors import EnvironmentFault, UsageError

Offsets = dict[str, dict[str, int]]
"""Topic -> "brokerName:queueId" -> the next queue offset, which is not in the table yet."""

Times = dict[str, int]
"""Topic -> the newest store time (wall ms) that it had when the table was written last."""

PARTITION_COLUMNS = ("topic", "storeDate")
STORE_DATE = "storeDate"
"""The UTC day of storeTimestamp."""

TARGET_FILE_BYTES = 128 * 1024 * 1024
"""Compaction makes files of about this size, and leaves those alone that have half of it."""

_DATA_FILE = re.compile(r"e(\d{12})-\d{5}-[0-9a-f]{12}\.parquet")
ESCAPED = {"%": ".25", "|": ".7C"}
"""All that topics may hold and paths in URLs may not. Escapes with a percent sign would be escaped
again by every layer on the way, and delta-rs does it otherwise in object stores than on disks."""


class TableConflict(EnvironmentFault):
    """Another run has committed to the table since this one read it last."""


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of one partition, written and not yet committed."""

    path: str
    """Relative to the root of the table's data, as it is on the disk."""
    rows: int
    bytes: int
    topic: str
    store_date: str
    """ISO."""
    stats: dict[str, list[Any]] = field(default_factory=dict)
    """Column -> [smallest, largest], for readers that skip files."""
    sha256: str = ""
    """Of the file's bytes, in hexadecimal; empty where nobody computed it."""


@dataclass(frozen=True)
class TransactionMark:
    """The last transaction of an archive: written with its files, so it is true or absent."""

    app: str
    batch: int
    offsets: Offsets
    run: str
    """Who committed it: a run that sees another's mark has been replaced and stops."""
    newest: Times = field(default_factory=dict)
    """Tells a topic that was deleted and made again; marks of older versions have none."""

    def as_json(self) -> str:
        """Canonical: equal marks give equal text."""
        found = {"app": self.app, "batch": self.batch, "offsets": self.offsets, "run": self.run}
        if self.newest:
            found["newest"] = self.newest
        return json.dumps(found, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "TransactionMark":
        """The reverse of `as_json`; `UsageError` for what no archive wrote."""
        try:
            found = json.loads(text)
            newest = {str(name): int(ms) for name, ms in found.get("newest", {}).items()}
            return cls(found["app"], found["batch"], found["offsets"], found["run"], newest)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"the table's mark cannot be read: {text[:80]}") from None


class ArchiveTable(Protocol):
    """A table that one archive writes to, batch after batch."""

    root: str
    """Where data files go: a directory or a URL."""

    @property
    def mark(self) -> TransactionMark | None:
        """The last transaction that `files` know of; None before the first."""

    def last_batch(self, app: str) -> tuple[int, Offsets] | None:
        """The last committed batch and where it ended; `UsageError` if `app` is not the owner."""

    def claim(self, app: str, offsets: Offsets, newest: Times | None = None) -> None:
        """Commit nothing but who writes from now on, and from where; older runs fail then."""

    def commit(
        self,
        app: str,
        batch: int,
        offsets: Offsets,
        files: Sequence[DataFile],
        newest: Times | None = None,
    ) -> bool:
        """All of the batch or nothing; False if it was in the table already.

        `TableConflict` when another run committed meanwhile.
        """

    def files(self) -> list[str]:
        """URLs of the files that make up the table now."""

    def schema(self) -> Any:
        """As a `pyarrow.Schema`, partition columns included."""

    def evolve(self, schema: Any) -> list[str]:
        """Add the columns that the table lacks; their names. `UsageError` for another type."""

    def compact(self) -> dict[str, int]:
        """Replace small files by large ones: {"removed": files, "added": files}."""

    def vacuum(self, older_than_hours: float) -> int:
        """Delete files that the table has no use for any more; how many."""


class MarkedTable(ABC):
    """How each format claims its table and commits to it: look for another run, then write."""

    def __init__(self) -> None:
        self.run = new_run()
        self._mark: TransactionMark | None = None

    def claim(self, app: str, offsets: Offsets, newest: Times | None = None) -> None:
        """See `ArchiveTable.claim`."""
        self._look()
        batch = self._mark.batch if self._mark else 0
        self._write(TransactionMark(app, batch, offsets, self.run, newest or {}), [])

    def commit(
        self,
        app: str,
        batch: int,
        offsets: Offsets,
        files: Sequence[DataFile],
        newest: Times | None = None,
    ) -> bool:
        """See `ArchiveTable.commit`."""
        self._look()
        if not is_next(self._mark, batch):
            return False
        self._write(TransactionMark(app, batch, offsets, self.run, newest or {}), files)
        return True

    @abstractmethod
    def _look(self) -> None:
        """Read the newest version; `TableConflict` if another run wrote a mark into it."""

    @abstractmethod
    def _write(self, mark: TransactionMark, files: Sequence[DataFile]) -> None:
        """Commit the files with the mark, in one transaction, and keep the mark."""


def new_run() -> str:
    """An id that no other run has."""
    return uuid.uuid4().hex


def partition_path(topic: str, store_date: str) -> str:
    """The directory of a partition, as Hive and Spark name it but for our own escapes."""
    for char, escape in ESCAPED.items():
        topic = topic.replace(char, escape)
    return f"topic={topic}/{STORE_DATE}={store_date}"


def plain(value: Any) -> Any:
    """A bound in JSON's own types; times with milliseconds, as Delta has them (they sort)."""
    if hasattr(value, "strftime"):
        return f"{value.strftime('%Y-%m-%dT%H:%M:%S')}.{value.microsecond // 1000:03d}Z"
    return value


def data_file_name(batch: int, task: int) -> str:
    """The name of one attempt's file: tells the batch, and no two attempts share one."""
    return f"e{batch:012d}-{task:05d}-{uuid.uuid4().hex[:12]}.parquet"


def batch_of(path: str) -> int | None:
    """The batch that a data file was written for; None for files that are not an archive's."""
    found = _DATA_FILE.fullmatch(path.rpartition("/")[2])
    return int(found[1]) if found else None


def check_owner(mark: TransactionMark | None, app: str, where: str) -> None:
    """`UsageError` unless the table is `app`'s own."""
    if mark is not None and mark.app != app:
        raise UsageError(
            f"the table {where} belongs to the archive '{mark.app}', not to '{app}':"
            " name another table, or go on with --app of its owner"
        )


def is_next(mark: TransactionMark | None, batch: int) -> bool:
    """Whether `batch` is still to be committed."""
    return mark is None or batch > mark.batch


def check_mark(mark: TransactionMark | None, known: TransactionMark | None, where: str) -> None:
    """`TableConflict` if the table's mark is not the one that this run knows."""
    if mark != known:
        by = f"run {mark.run[:8]}, batch {mark.batch}" if mark else "somebody"
        raise TableConflict(
            f"another archive writes to {where} ({by}); this run stops,"
            " and nothing of its unfinished batch is in the table"
        )


def new_columns(have: Any, want: Any, where: str) -> list[Any]:
    """Fields of `want` that `have` lacks; `UsageError` where a type differs."""
    known = {each.name: each for each in have}
    fresh = []
    for each in want:
        old = known.get(each.name)
        if old is None:
            fresh.append(each)
        elif not same_type(old.type, each.type):
            raise UsageError(
                f"column '{each.name}' of {where} is {old.type}, and would be {each.type} now:"
                " archive into another table, or give the column another name"
            )
    return fresh


def same_type(one: Any, other: Any) -> bool:
    """Equal but for what formats change on the way (large_string, names inside of maps)."""
    return _plain(one) == _plain(other)


def _plain(kind: Any) -> str:
    text = str(kind).replace("large_", "").replace("_view", "").replace(" not null", "")
    return re.sub(r"\(?'\w+'\)?|\b(?:key|keys|value|entries|item|element|items): ", "", text)
