"""The interface of an archive's table in any format: `ArchiveTable`, its files, its last commit."""

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Protocol

from epochmq.base.errors import EnvironmentFault, StoreDamaged, UsageError
from epochmq.model.queue_offsets import from_topics

Offsets = dict[str, dict[str, int]]
"""Topic -> "brokerName:queueId" -> the next queue offset, which is not yet in the table."""

Times = dict[str, int]
"""Topic -> its newest store time (wall ms) when the table was last written."""

PARTITION_COLUMNS = ("topic", "storeDate")
STORE_DATE = "storeDate"
"""The partition column: the UTC day of storeTimestamp."""

TARGET_FILE_BYTES = 128 * 1024 * 1024
"""Compaction writes files of about this size in bytes; files of at least half the size are kept."""

_DATA_FILE = re.compile(r"e(\d{12})-\d{5}-[0-9a-f]{12}\.parquet")
ESCAPED = {"%": ".25", "|": ".7C"}
"""Characters that topic names may contain and paths in URLs may not, with their escapes.

Escapes with a percent sign would be escaped again by each layer, and delta-rs escapes differently
in object stores and on disks.
"""


class TableConflict(EnvironmentFault):
    """Raised when another run has committed to the table since this run last read it."""


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of one partition, which is written but not yet committed."""

    path: str
    """Relative to the root of the table's data, as on disk."""
    rows: int
    bytes: int
    topic: str
    store_date: str
    """In ISO format."""
    stats: dict[str, list[Any]] = field(default_factory=dict)
    """Column -> [minimum, maximum, number of nulls], by which readers skip files: see
    `column_bounds`. Manifests of older versions have no number of nulls.
    """
    sha256: str = ""
    """SHA-256 of the file's bytes in hexadecimal; empty when it was not computed."""


@dataclass(frozen=True)
class TransactionMark:
    """The mark of an archive's last transaction, which is committed together with its files."""

    app: str
    batch: int
    offsets: Offsets
    run: str
    """The id of the run that committed it: a run that finds another's mark was replaced and
    stops.
    """
    newest: Times = field(default_factory=dict)
    """Shows whether a topic was deleted and created again; marks of older versions have none."""
    begin: Offsets = field(default_factory=dict)
    """The first queue offset that the archive was to have; older versions did not store it."""

    def as_json(self) -> str:
        """Return the mark as canonical JSON: equal marks give equal text."""
        found = {"app": self.app, "batch": self.batch, "offsets": self.offsets, "run": self.run}
        if self.newest:
            found["newest"] = self.newest
        if self.begin:
            found["begin"] = self.begin
        return json.dumps(found, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "TransactionMark":
        """Parse the JSON of `as_json`; raises `StoreDamaged` for another text."""
        try:
            found = json.loads(text)
            app, batch, offsets, run = (found[key] for key in ("app", "batch", "offsets", "run"))
            newest = {str(name): int(ms) for name, ms in found.get("newest", {}).items()}
            begin = dict(found.get("begin", {}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise _unreadable(text[:80]) from None
        if not (isinstance(app, str) and isinstance(run, str) and type(batch) is int):
            raise _unreadable(text[:80])
        try:
            for each in (offsets, begin):
                from_topics(each)
        except UsageError as error:
            raise _unreadable(str(error)) from None
        return cls(app, batch, offsets, run, newest, begin)


def _unreadable(why: str) -> StoreDamaged:
    return StoreDamaged(
        f"the mark of the table's last transaction cannot be read: {why}. `epochmq pipeline verify`"
        " checks the table, and `epochmq pipeline repair` restores it from a copy"
    )


class ArchiveTable(Protocol):
    """A table to which one archive commits batch after batch."""

    root: str
    """The root of the data files: a directory or a URL."""

    @property
    def mark(self) -> TransactionMark | None:
        """The last committed transaction; None before the first."""

    def last_batch(self, app: str) -> tuple[int, Offsets] | None:
        """Return number and end offsets of the last committed batch; None before the first.

        Raises `UsageError` if `app` does not own the table.
        """

    def claim(
        self,
        app: str,
        offsets: Offsets,
        newest: Times | None = None,
        begin: Offsets | None = None,
    ) -> None:
        """Commit a transaction without files that makes this run the writer.

        Commits of older runs then fail. `offsets` are the next queue offsets to archive, `begin`
        are the first ones of the whole archive.
        """

    def commit(
        self,
        app: str,
        batch: int,
        offsets: Offsets,
        files: Sequence[DataFile],
        newest: Times | None = None,
        begin: Offsets | None = None,
    ) -> bool:
        """Commit all files of the batch in one transaction; returns False if it was committed
        before.

        Raises `TableConflict` when another run has committed meanwhile.
        """

    def files(self) -> list[str]:
        """Return the URLs of the table's current files."""

    def data_files(self) -> list[DataFile]:
        """Return the current files that an archive wrote, with their digests where they have
        one.
        """

    def replace(self, gone: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Commit `new` files in place of `gone` in one transaction; offsets and owner stay."""

    def remove(self, gone: Sequence[DataFile], begin: Offsets) -> None:
        """Commit the removal of files in one transaction, after which the archive begins at
        `begin`; offsets and owner stay.
        """

    def record_digests(self, files: Sequence[DataFile]) -> None:
        """Store the digests of current files that had none; offsets and owner stay."""

    def check_files(self) -> None:
        """Raise `StoreDamaged` when the bytes of a file are not the ones that were written."""

    def schema(self) -> Any:
        """Return the schema as a `pyarrow.Schema`, including partition columns."""

    def evolve(self, schema: Any) -> list[str]:
        """Add the columns that the table lacks and return their names.

        Raises `UsageError` for a column whose type differs.
        """

    def compact(self) -> dict[str, int]:
        """Replace small files by large ones; returns {"removed": files, "added": files}."""

    def vacuum(self, older_than_hours: float) -> int:
        """Delete files that the table no longer uses and that are older; returns how many."""


def new_run() -> str:
    """Return a unique run id."""
    return uuid.uuid4().hex


def partition_path(topic: str, store_date: str) -> str:
    """Return the directory of a partition, named as by Hive and Spark except for our escapes."""
    for char, escape in ESCAPED.items():
        topic = topic.replace(char, escape)
    return f"topic={topic}/{STORE_DATE}={store_date}"


def plain(value: Any) -> Any:
    """Convert a bound to a JSON type; times get milliseconds, as in Delta, so that they sort."""
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    return value.isoformat() if isinstance(value, date) else value


def data_file_name(batch: int, task: int) -> str:
    """Return a unique file name for one task attempt, which contains the batch number."""
    return f"e{batch:012d}-{task:05d}-{uuid.uuid4().hex[:12]}.parquet"


def batch_of(path: str) -> int | None:
    """Return the batch for which a data file was written; None for files of other programs."""
    found = _DATA_FILE.fullmatch(path.rpartition("/")[2])
    return int(found[1]) if found else None


def check_owner(mark: TransactionMark | None, app: str, where: str) -> None:
    """Raise `UsageError` unless `app` owns the table."""
    if mark is not None and mark.app != app:
        raise UsageError(
            f"the table {where} belongs to the archive '{mark.app}', not to '{app}':"
            " name another table, or go on with --app of its owner"
        )


def is_next(mark: TransactionMark | None, batch: int) -> bool:
    """Return whether `batch` is not yet committed."""
    return mark is None or batch > mark.batch


def check_mark(mark: TransactionMark | None, known: TransactionMark | None, where: str) -> None:
    """Raise `TableConflict` if the table's mark is not the one that this run knows."""
    if mark != known:
        by = f"run {mark.run[:8]}, batch {mark.batch}" if mark else "somebody"
        raise TableConflict(
            f"another archive writes to {where} ({by}); this run stops,"
            " and nothing of its unfinished batch is in the table"
        )


def new_columns(have: Any, want: Any, where: str) -> list[Any]:
    """Return the fields of `want` that `have` lacks; raises `UsageError` for a type that
    differs.
    """
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
    """Return whether types are equal, apart from what formats change (large_string, names in
    maps).
    """
    return _plain(one) == _plain(other)


def _plain(kind: Any) -> str:
    text = str(kind).replace("large_", "").replace("_view", "").replace(" not null", "")
    return re.sub(r"\(?'\w+'\)?|\b(?:key|keys|value|entries|item|element|items): ", "", text)
