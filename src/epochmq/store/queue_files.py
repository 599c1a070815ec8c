"""Open files of consume queues, by path, with a limit on the number of open files."""

from epochmq.base.errors import DiskFailed, OutOfResources
from epochmq.base.ports import Disk, File


class QueueFiles:
    """The least recently used cache of open queue files."""

    def __init__(self, disk: Disk, open_max: int) -> None:
        self.disk = disk
        self._open_max = open_max
        self._files: dict[str, File] = {}
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

    def forget(self, prefix: str) -> None:
        """Close the files at or under `prefix`, before they are removed."""
        for path in [p for p in self._files if p == prefix or p.startswith(prefix + "/")]:
            self._files.pop(path).close()
        for paths in (self.unsynced, self.created):
            paths -= {p for p in paths if p == prefix or p.startswith(prefix + "/")}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
