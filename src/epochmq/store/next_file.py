"""Preallocation: creates the next log file ahead, outside the event loop, optionally zero-filled.

A sync is cheaper in a file of zeros than in a file whose space is only reserved, because there it
must also record which blocks hold data now. The file is created under another name and joins the
log by a rename, so zeros are never written over messages. If the log needs the file before it is
finished, the log creates one itself.

The log's folder may be on a file system of its own, to which no file can be renamed from outside.
Then the next files are created in a folder below it. Not always: RocketMQ 4 does not open a log
with a folder in it, which a crash could leave there.
"""

from collections.abc import Callable
from functools import partial

from epochmq.base.errors import EnvironmentFault, OtherFileSystem
from epochmq.base.ports import File
from epochmq.store.chores import Chores, Step
from epochmq.store.store_files import StoreFiles

PATH = "prealloc/next"
SLICE_BYTES = 4 * 1024 * 1024
CHORE = "next file"
NAME_CHORE = "name of the next file"


class NextFile:
    """Creates the next log file; at most one at a time."""

    def __init__(
        self,
        files: StoreFiles,
        chores: Chores,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._disk = files.disk
        self._log = files.log
        self._path = PATH
        self._chores = chores
        self._on_failure = on_failure
        self._zeros = files.options.zero_fill
        self._reserve = files.options.preallocate

    def begin(self) -> None:
        """Start to create a file, unless one is being created or is ready."""
        if self._log.ready is not None or self._chores.busy(CHORE):
            return
        size = self._log.file_bytes
        self._disk.remove(self._path)
        file = self._disk.open(self._path, create_size=size)
        steps: list[Step] = []
        if self._zeros:
            zeros = bytes(min(SLICE_BYTES, size))
            steps = [
                lambda at=at: file.write(at, zeros[: size - at])  # type: ignore[misc]
                for at in range(0, size, len(zeros))
            ]
        elif self._reserve:
            steps = [partial(file.allocate, 0, size)]

        def done(error: EnvironmentFault | None) -> None:
            self._finish(file, failed=error is not None)
            if error is not None:
                self._on_failure(error)

        self._chores.add(CHORE, [*steps, file.sync], done)

    def _finish(self, file: File, *, failed: bool) -> None:
        """Give the file to the log, if the log still needs one."""
        file.close()
        if failed or self._log.ready is not None:
            self._disk.remove(self._path)
            return
        try:
            name = self._log.adopt_ready(self._path)
        except OtherFileSystem as error:
            self._move_inside(error)
            return
        made = self._log.ready

        def named(error: EnvironmentFault | None) -> None:
            if error is not None:
                self._on_failure(error)
            elif self._log.ready is made:
                self._log.named()

        self._chores.add(NAME_CHORE, [name], named)

    def _move_inside(self, error: OtherFileSystem) -> None:
        """Create this file and the next ones below the log's folder.

        Raises `OtherFileSystem` if that was tried already.
        """
        self._disk.remove(self._path)
        inside = f"{self._log.folder}/{PATH}"
        if self._path == inside:
            raise error
        self._path = inside
        self.begin()

    def clean(self) -> None:
        """Remove files that a crash left behind, and the folder for them."""
        folder = PATH.partition("/")[0]
        self._disk.remove(folder)
        self._disk.remove(f"{self._log.folder}/{folder}")
