"""Saves tables beside the loop: encoded here and now, written and synced by a thread.

A sync of even a small file takes milliseconds, far too long between two loop turns. One thread
writes in the order given, so an older content never replaces a newer one.
"""

import logging
from collections.abc import Callable

from epochmq.base.errors import EnvironmentFault
from epochmq.base.ports import Blocking, Disk
from epochmq.base.task_set import TaskSet
from epochmq.broker.state.saved_files import SavedFile, encode_file

log = logging.getLogger(__name__)


class TableWriter:
    """Writes files of one disk; a table whose write fails is dirty again and tried later.

    Nothing is taken while `held` says so: something else has to be on the disk before.
    """

    def __init__(
        self, disk: Disk, blocking: Blocking, held: Callable[[], bool] = lambda: False
    ) -> None:
        self._disk = disk
        self._held = held
        self._blocking = blocking
        self._writes = TaskSet()
        self._closed = False

    def save(self, table: SavedFile) -> None:
        """Write the table as it is now, if it changed since its last save."""
        taken = self.snapshot(table)
        if taken is not None:
            taken()

    def snapshot(
        self, table: SavedFile, before: Callable[[], Callable[[], None]] | None = None
    ) -> Callable[[], None] | None:
        """The table's content of now, to be written by calling the result later, or never.

        `before` is called with the result, on the loop; what it gives runs, and may block, before
        the table is written.
        """
        if not table.dirty or self._held():
            return None
        path, data = table.file, encode_file(table)
        table.dirty = False

        def write() -> None:
            if self._closed:
                return
            first = before() if before is not None else _nothing
            self._writes.spawn(self._write(table, path, data, first))

        return write

    def write_in_background(
        self, call: Callable[[], None], done: Callable[[EnvironmentFault | None], None]
    ) -> None:
        """Run `call`, which may block, in the thread, after the writes given before; then `done`
        on the loop, with the error if there was one."""
        self._writes.spawn(self._run(call, done))

    async def _run(
        self, call: Callable[[], None], done: Callable[[EnvironmentFault | None], None]
    ) -> None:
        problem = None
        try:
            await self._blocking.run(call)
        except EnvironmentFault as error:
            problem = error
        done(problem)

    async def drain(self) -> None:
        """Wait for the writes under way."""
        await self._writes.drain()

    async def close(self) -> None:
        """The same; and what was taken and still waits for something is never written: who saves
        everything at the end has newer contents."""
        await self.drain()
        self._closed = True

    async def _write(
        self, table: SavedFile, path: str, data: bytes, first: Callable[[], None]
    ) -> None:
        def write() -> None:
            first()
            self._disk.write_file(path, data, backup=True)

        try:
            await self._blocking.run(write)
        except EnvironmentFault as error:
            table.dirty = True
            log.error("%s cannot be saved now: %s", path, error)


def _nothing() -> None:
    """Most tables stand for themselves."""
