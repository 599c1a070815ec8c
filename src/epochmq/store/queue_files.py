"""Open files of consume queues, by path, with a limit on the number of open files."""

from epochmq.base.errors import DiskFailed, OutOfResources
from epochmq.base.ports import Buffer, Disk, File

BLOCK_BYTES = 10_240
"""Bytes that are read together for a reader that continues behind them: 512 units."""
BLOCKS_MAX = 256
"""Blocks that are kept, 2.5 MiB in all."""


class QueueFiles:
    """The least recently used cache of open queue files."""

    def __init__(self, disk: Disk, open_max: int) -> None:
        self.disk = disk
        self._open_max = open_max
        self._files: dict[str, File] = {}
        self._blocks: dict[tuple[str, int], bytes] = {}
        """What `read_ahead` read, by path and number of the block; the oldest use first."""
        self.unsynced: set[str] = set()
        """Paths written since the last sync."""
        self.created: set[str] = set()
        """New files among them: their directories must be synced as well."""

    def get(self, path: str, create_size: int | None = None) -> File:
        """Return the file at `path`, opened if needed, or created with `create_size` bytes."""
        file = self._files.pop(path, None)
        if file is None:
            if len(self._files) >= self._open_max:
                oldest = next(iter(self._files))
                self._files.pop(oldest).close()
            if create_size is not None:
                if self.disk.exists(path):
                    create_size = None
                else:
                    self.created.add(path)
            file = self._open(path, create_size)
        self._files[path] = file
        return file

    def _open(self, path: str, create_size: int | None) -> File:
        """Open a file; without a free file descriptor, close all other files first."""
        try:
            return self.disk.open(path, create_size=create_size)
        except OutOfResources:
            if not self._files:
                raise
            self.close()
            return self.disk.open(path, create_size=create_size)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return bytes of a file; empty if the file does not exist."""
        file = self._files.get(path)
        if file is None:
            if not self.disk.exists(path):
                return b""
            try:
                file = self.get(path)
            except DiskFailed:
                if not self.disk.exists(path):
                    return b""
                raise
        return file.read(offset, size)

    def read_ahead(self, path: str, offset: int, size: int) -> bytes:
        """Return the same as `read`, for a reader that will continue behind these bytes.

        Bytes that changed on the device since the block was read may not be noticed.
        """
        number, low = divmod(offset, BLOCK_BYTES)
        if low + size > BLOCK_BYTES:
            return self.read(path, offset, size)
        key = path, number
        block = self._blocks.pop(key, None)
        if block is None:
            block = self.read(path, number * BLOCK_BYTES, BLOCK_BYTES)
            if not block:
                return block  # there is no file yet; `get` may create it
            if len(self._blocks) >= BLOCKS_MAX:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[key] = block
        return block[low : low + size]

    def write(self, path: str, offset: int, data: Buffer, create_size: int | None = None) -> None:
        """Write to a file, which is opened or created as by `get`, and note it as not synced.

        Raises `DiskFull`, `DiskFailed`.
        """
        for number in range(offset // BLOCK_BYTES, (offset + len(data)) // BLOCK_BYTES + 1):
            self._blocks.pop((path, number), None)
        self.get(path, create_size).write(offset, data)
        self.unsynced.add(path)

    def forget(self, prefix: str) -> None:
        """Close the files at or under `prefix`, before they are removed."""
        for path in [p for p in self._files if p == prefix or p.startswith(prefix + "/")]:
            self._files.pop(path).close()
        for paths in (self.unsynced, self.created):
            paths -= {p for p in paths if p == prefix or p.startswith(prefix + "/")}
        for key in [k for k in self._blocks if k[0] == prefix or k[0].startswith(prefix + "/")]:
            del self._blocks[key]

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._blocks.clear()
