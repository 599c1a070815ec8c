"""Metadata keeper: saves changes of topics and groups, and tells waiting requests when it is done.

Nothing in here blocks: `write_in_background` runs a call of `TableJournal` in the thread that
writes tables and reports its end on the loop. One call runs at a time; changes meanwhile are saved
together by the next call.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from epochmq.base.errors import EnvironmentFault
from epochmq.broker.state.metadata_journal import Changes, Journaled, TableJournal

FOLD_MS = 60_000
"""How long (ms) a change may be only in the journal, which RocketMQ does not read."""

FOLD_SMALL_MS = 1_000
"""The same limit (ms) while the JSON files are small: writing them is cheap then, and RocketMQ
finds nearly all changes after a crash."""

SMALL_BYTES = 256 * 1024

log = logging.getLogger(__name__)

Done = Callable[[EnvironmentFault | None], None]


class WriteInBackground(Protocol):
    """Runs blocking calls in the table thread, in order; `done` is called on the loop."""

    def __call__(self, call: Callable[[], None], done: Done) -> None: ...


def write_here(call: Callable[[], None], done: Done) -> None:
    """Run `call` now, blocking: for tests, and before the loop runs."""
    try:
        call()
    except EnvironmentFault as error:
        done(error)
    else:
        done(None)


class MetadataKeeper:
    """Saves `tables` through `journal`."""

    def __init__(
        self,
        journal: TableJournal,
        tables: Sequence[Journaled],
        write_in_background: WriteInBackground = write_here,
    ) -> None:
        self._write_in_background = write_in_background
        self.damaged = 0
        """Tables that were replaced by their `.bak` at the start."""
        self._journal = journal
        self._tables = tables
        self.writing: dict[str, Changes] | None = None
        """The changes of the running write; None if no write runs."""
        self._waiting: list[Callable[[], None]] = []
        self._next: list[Callable[[], None]] = []
        """Callbacks that wait for changes which the running write does not include."""
        self._fold_at: int | None = None
        self._asked = (0, 0)
        """Monotonic and wall time when `save` was last called."""
        self._closed = False

    def load(self) -> None:
        """Load the tables; raises `StoreDamaged` like `TableJournal.load`."""
        self.damaged = self._journal.load(self._tables).replaced

    @property
    def dirty(self) -> bool:
        """Whether a table has changes that no write includes."""
        for table in self._tables:  # noqa: SIM110 - every turn asks; a generator is slower
            if table.dirty:
                return True
        return False

    def is_unsaved(self, table: Journaled, name: str) -> bool:
        """Return whether a row is not synced yet, so that a crash could lose it."""
        writing = self.writing or {}
        return name in table.touched or name in writing.get(table.file, {}).get("put", {})

    def save(self, now: int, wall: int) -> None:
        """Start to save the changes, unless a write is running.

        `now` is monotonic ms, `wall` is wall ms.
        """
        self._asked = now, wall
        if self.writing is not None or self._closed:
            return
        journal = self._journal
        if self.dirty:
            writing = {}
            for table in self._tables:
                if table.dirty:
                    table.dirty = False
                    writing[table.file] = table.pop_changes()
            if not journal.should_fold:
                self._begin(writing, partial(journal.append, writing))
                if self._fold_at is None:
                    self._fold_at = now + self._fold_delay_ms
                return
            self._fold(writing, now, wall)
        elif self._fold_is_due(now):
            self._fold({}, now, wall)

    def _fold_is_due(self, now: int) -> bool:
        if self._fold_at is None:
            if self._journal.has_lines:
                self._fold_at = now + self._fold_delay_ms
            return False
        return now >= self._fold_at

    @property
    def _fold_delay_ms(self) -> int:
        return FOLD_SMALL_MS if self._journal.folded_bytes <= SMALL_BYTES else FOLD_MS

    def _fold(self, writing: dict[str, Changes], now: int, wall: int) -> None:
        self._fold_at = None
        contents = {table.file: table.snapshot() for table in self._tables}
        self._begin(writing, partial(self._journal.fold, contents, wall))

    def _begin(self, writing: dict[str, Changes], call: Callable[[], None]) -> None:
        self.writing = writing
        self._waiting, self._next = self._waiting + self._next, []
        self._write_in_background(call, self._written)

    def _written(self, error: EnvironmentFault | None) -> None:
        writing, self.writing = self.writing or {}, None
        if error is not None:
            log.error(
                "topics and groups cannot be saved now, the broker tries again: %(error)s",
                {"error": error},
            )
            for table in self._tables:
                if table.file in writing:
                    table.give_back(writing[table.file])
                    table.dirty = True
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()
        if error is None and self.dirty:
            self.save(*self._asked)

    def when_saved(self, done: Callable[[], None]) -> None:
        """Call `done` when all changes so far are durable, or when the disk has refused them.

        `done` is called at once if nothing is to be saved. Otherwise the caller must call `save` in
        this turn of the loop.
        """
        if self.dirty:
            self._next.append(done)
        elif self.writing is not None:
            self._waiting.append(done)
        else:
            done()

    def close(self, wall: int) -> None:
        """Save everything as JSON files, which RocketMQ reads; blocks. No write may be running.

        Raises `EnvironmentFault` when the disk refuses.
        """
        self._closed = True
        if self.dirty or self._journal.has_lines:
            for table in self._tables:
                table.pop_changes()
                table.dirty = False
            self._journal.fold({table.file: table.snapshot() for table in self._tables}, wall)
        self._journal.close()
