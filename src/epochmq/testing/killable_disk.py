"""A disk that a test can take away from a server: the files stay as they are at that moment.

A server that a test kills must not write any more, not even what a clean stop would write. Reading
goes on, so that the objects of the server can be closed.
"""

from epochmq.base.errors import DiskFailed
from epochmq.base.ports import Buffer
from epochmq.runtime.disk import RealDisk, RealFile


class _Power:
    """Whether the server of a disk is alive."""

    def __init__(self) -> None:
        self.is_off = False

    def check(self) -> None:
        if self.is_off:
            raise DiskFailed("the server of this disk was killed by a test")


class KillableFile(RealFile):
    """A file that refuses writes after `KillableDisk.kill`."""

    __slots__ = ("_power",)

    def __init__(self, path: str, fd: int, power: _Power) -> None:
        super().__init__(path, fd)
        self._power = power

    def write(self, offset: int, data: Buffer) -> None:
        """Write `data` at `offset`; raises `DiskFailed` after a kill, and as `RealFile`."""
        self._power.check()
        super().write(offset, data)

    def allocate(self, offset: int, size: int) -> None:
        """Reserve space; raises `DiskFailed` after a kill, and as `RealFile`."""
        self._power.check()
        super().allocate(offset, size)

    def sync(self) -> None:
        """Sync the file; raises `DiskFailed` after a kill, and as `RealFile`."""
        self._power.check()
        super().sync()

    def truncate(self, size: int) -> None:
        """Cut the file; raises `DiskFailed` after a kill, and as `RealFile`."""
        self._power.check()
        super().truncate(size)


class KillableDisk(RealDisk):
    """A directory whose files refuse all changes after `kill`."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._power = _Power()

    def kill(self) -> None:
        """Refuse all further changes with `DiskFailed`."""
        self._power.is_off = True

    def opened(self, path: str, fd: int) -> RealFile:
        """Return the file of an open descriptor."""
        return KillableFile(path, fd, self._power)

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Replace a file; raises `DiskFailed` after a kill, and as `RealDisk`."""
        self._power.check()
        super().write_file(path, data, backup=backup)

    def make_dir(self, path: str) -> None:
        """Make a directory; raises `DiskFailed` after a kill, and as `RealDisk`."""
        self._power.check()
        super().make_dir(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file; raises `DiskFailed` after a kill, and as `RealDisk`."""
        self._power.check()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file; raises `DiskFailed` after a kill, and as `RealDisk`."""
        self._power.check()
        super().remove(path)
