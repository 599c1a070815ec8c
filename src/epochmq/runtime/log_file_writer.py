"""Writes the files of a commit log copy: sparse files of one size, named by their first offset."""

import errno
import os
from pathlib import Path

from epochmq.base.errors import DiskFull, EnvironmentFault
from epochmq.store.draft import file_name

_FULL = (errno.ENOSPC, errno.EDQUOT)


class LogFileWriter:
    """Writes log bytes at their places below `directory`, which must exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._fd = -1
        self._open_start = -1

    def write(self, offset: int, data: "bytes | memoryview", file_bytes: int) -> None:
        """Write bytes that begin at log offset `offset`; they may cross the ends of files.

        Raises:
            EnvironmentFault: the disk refuses.
        """
        rest = memoryview(data)
        while rest:
            start = offset - offset % file_bytes
            if start != self._open_start:
                self._roll(start, file_bytes)
            try:
                done = os.pwrite(self._fd, rest[: start + file_bytes - offset], offset - start)
            except OSError as error:
                raise _fault(f"cannot write to {self._directory}", error) from error
            rest, offset = rest[done:], offset + done

    def _roll(self, start: int, file_bytes: int) -> None:
        self.sync()
        path = self._directory / file_name(start)
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._fd, file_bytes)
        except OSError as error:
            raise _fault(f"cannot make {path}", error) from error
        self._open_start = start

    def sync(self) -> None:
        """Sync the current file and the directory to disk, and close the file."""
        if self._fd < 0:
            return
        descriptor, self._fd, self._open_start = self._fd, -1, -1
        try:
            os.fdatasync(descriptor)
            folder = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise _fault(f"cannot sync {self._directory}", error) from error
        finally:
            os.close(descriptor)


def _fault(what: str, error: OSError) -> EnvironmentFault:
    kind = DiskFull if error.errno in _FULL else EnvironmentFault
    return kind(f"{what}: {error.strerror}")
