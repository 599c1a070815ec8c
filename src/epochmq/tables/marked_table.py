"""The base class of the table formats: `MarkedTable` claims, commits, compacts and checks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from epochmq.tables.archive_table import (
    DataFile,
    Offsets,
    Times,
    TransactionMark,
    is_next,
    new_run,
)
from epochmq.tables.rewriting import bins, check_digests, rewrite
from epochmq.tables.storage import Storage


class MarkedTable(ABC):
    """Base class of the table formats: checks for commits of other runs, then claims or commits."""

    storage: Storage

    def __init__(self) -> None:
        self.run = new_run()
        self._mark: TransactionMark | None = None

    def claim(
        self,
        app: str,
        offsets: Offsets,
        newest: Times | None = None,
        begin: Offsets | None = None,
    ) -> None:
        """See `ArchiveTable.claim`."""
        self._look()
        batch = self._mark.batch if self._mark else 0
        mark = TransactionMark(app, batch, offsets, self.run, newest or {}, begin or {})
        self._write(mark, [])

    def commit(
        self,
        app: str,
        batch: int,
        offsets: Offsets,
        files: Sequence[DataFile],
        newest: Times | None = None,
        begin: Offsets | None = None,
    ) -> bool:
        """See `ArchiveTable.commit`."""
        self._look()
        if not is_next(self._mark, batch):
            return False
        mark = TransactionMark(app, batch, offsets, self.run, newest or {}, begin or {})
        self._write(mark, files)
        return True

    @abstractmethod
    def _look(self) -> None:
        """Read the newest version; raises `TableConflict` if another run has written a mark into
        it.
        """

    @abstractmethod
    def _write(self, mark: TransactionMark, files: Sequence[DataFile]) -> None:
        """Commit the files and the mark in one transaction, and keep the mark."""

    def replace(self, gone: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """See `ArchiveTable.replace`."""
        self._look()
        assert self._mark is not None, "a table with files has a mark"
        self._exchange(self._mark, gone, new)

    def remove(self, gone: Sequence[DataFile], begin: Offsets) -> None:
        """See `ArchiveTable.remove`."""
        self._look()
        assert self._mark is not None, "a table with files has a mark"
        mark = replace(self._mark, begin=begin)
        self._exchange(mark, gone, [])
        self._mark = mark

    def compact(self) -> dict[str, int]:
        """See `ArchiveTable.compact`."""
        self._look()
        old = bins(self.data_files())
        if not old or self._mark is None:
            return {"removed": 0, "added": 0}
        schema, batch = self.schema(), self._mark.batch
        new = [rewrite(self.storage, each, schema, batch) for each in old]
        gone = [file for each in old for file in each]
        self._exchange(self._mark, gone, new)
        return {"removed": len(gone), "added": len(new)}

    def check_files(self) -> None:
        """See `ArchiveTable.check_files`."""
        check_digests(self.storage, self.data_files())

    @abstractmethod
    def data_files(self) -> list[DataFile]:
        """See `ArchiveTable.data_files`."""

    @abstractmethod
    def schema(self) -> Any:
        """See `ArchiveTable.schema`."""

    @abstractmethod
    def _exchange(
        self, mark: TransactionMark, gone: Sequence[DataFile], new: Sequence[DataFile]
    ) -> None:
        """Commit `new` files in place of `gone` and the same mark in one transaction."""
