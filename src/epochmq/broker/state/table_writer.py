"""Table writer: encodes tables on the loop, and writes and syncs their files in a thread.

Even a small file takes milliseconds to sync, which is too long for the loop. One thread writes in
the given order, so older content never replaces newer content.
"""

import logging
from collections.abc import Callable

from epochmq.base.errors import EnvironmentFault
from epochmq.base.ports import Blocking, Disk
from epochmq.base.task_set import TaskSet
from epochmq.broker.state.saved_files import SavedFile, encode_file

log = logging.getLogger(__name__)


class TableWriter:
    """Writes table files to one disk; after a failed write the table is dirty again.

    While `held` returns True, no snapshot is taken: other data must be on the disk first.
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
        """Write the present content of the table if it changed since its last save."""
        taken = self.snapshot(table)
        if taken is not None:
            taken()

    def snapshot(
        self, table: SavedFile, before: Callable[[], Callable[[], None]] | None = None
    ) -> Callable[[], None] | None:
        """Encode the table; the returned function starts its write. None if there is none.

        When that function is called, `before` is called on the loop. The function that `before`
        returns runs in the thread before the table is written, and may block.
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
        """Run `call`, which may block, in the thread after the earlier writes.

        `done` is called on the loop, with the error if there was one.
        """
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
        """Wait for the running writes."""
        await self._writes.drain()

    async def close(self) -> None:
        """Wait for the running writes, and never write pending snapshots.

        The final save of the broker writes newer content.
        """
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
            log.error("%(path)s cannot be saved now: %(error)s", {"path": path, "error": error})


def _nothing() -> None:
    """Do nothing before the write of a table."""
