"""Disk access, the implementation of `base.ports.Disk`: pwrite for writing, mmap for reading.

No call here holds the GIL for long: `os.pwrite`, `os.fdatasync` and `os.posix_fallocate` release
it; `mmap.flush` and `mmap.madvise` do not and are never called.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from epochmq.base.errors import (
    DiskFailed,
    DiskFull,
    OtherFileSystem,
    OutOfResources,
    StoreInUse,
    SyncFailed,
    UsageError,
)
from epochmq.base.ports import Buffer
from epochmq.native.memory import BufferAddress
from epochmq.store.native_records import guard

READ_STEP = 256 * 1024
_mincore = getattr(ctypes.CDLL(None), "mincore", None)
_PAGES_MAX = 4096
_pages = (ctypes.c_ubyte * _PAGES_MAX)()
_seen = memoryview(_pages).cast("B")
"""What `mincore` says of each page; only the event loop's thread uses it."""
if _mincore is not None:
    _mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _failure(error: OSError, path: str, doing: str) -> DiskFailed | DiskFull:
    """Convert an OSError into the project's error, with the file and the reason in its text."""
    text = f"{doing} {path}: {error.strerror or error}"
    if error.errno in _SHORT:
        return OutOfResources(text)
    if error.errno == errno.EXDEV:
        return OtherFileSystem(text)
    return DiskFull(text) if error.errno in _FULL else DiskFailed(text)


class RealFile:
    """One open file; see `base.ports.File`."""

    __slots__ = ("_address", "_fd", "_guarded", "_map", "_path", "_size")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._map: mmap.mmap | None = None
        self._address = 0
        """Where the map begins; 0 if it was not asked for."""
        self._guarded = 0

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._fd

    def write(self, offset: int, data: Buffer) -> None:
        try:
            done = os.pwrite(self._fd, data, offset)
            if done != len(data):
                self._write_rest(offset, data, done)
        except OSError as error:
            raise _failure(error, self._path, "cannot write to") from error
        if offset + len(data) > self._size:
            self._size = offset + len(data)

    def _write_rest(self, offset: int, data: Buffer, done: int) -> None:
        rest = memoryview(data)
        while done < len(rest):
            step = os.pwrite(self._fd, rest[done:], offset + done)
            if step == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += step

    def read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            while len(data) < size and (
                more := os.pread(self._fd, size - len(data), offset + len(data))
            ):
                data += more
        except OSError as error:
            raise _failure(error, self._path, "cannot read") from error
        return data

    def is_in_memory(self, offset: int, size: int) -> bool:
        if self._map is None:
            self.view()
        if _mincore is None or self._map is None:
            return True
        stop = min(offset + size, len(self._map))
        start = offset - offset % mmap.PAGESIZE
        if not self._address:
            with BufferAddress(memoryview(self._map)) as self._address:
                pass  # the map stays where it is
        while start < stop:
            length = min(stop - start, _PAGES_MAX * mmap.PAGESIZE)
            if _mincore(self._address + start, length, _pages):
                return True  # the system does not say it
            if 0 in bytes(_seen[: -(-length // mmap.PAGESIZE)]):
                return False
            start += length
        return True

    def prefetcher(self, parts: Sequence[tuple[int, int]]) -> Callable[[], None]:
        return partial(_read_through, self._path, parts)

    def view(self) -> memoryview:
        if self._map is None:
            if self._size == 0:
                return memoryview(b"")
            try:
                # The file may have been shortened: access behind its end ends the process (SIGBUS).
                size = min(self._size, os.fstat(self._fd).st_size)
                self._map = mmap.mmap(self._fd, size, access=mmap.ACCESS_READ)
            except OSError as error:
                raise _failure(error, self._path, "cannot map") from error
            except ValueError as error:
                raise DiskFailed(f"cannot map {self._path}: {error}") from error
            if (pages := guard()) is not None:
                self._guarded = pages.add(memoryview(self._map))
        return memoryview(self._map)

    def forget_view(self) -> None:
        self._unmap()

    def allocate(self, offset: int, size: int) -> None:
        try:
            os.posix_fallocate(self._fd, offset, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise _failure(error, self._path, "cannot reserve space for") from error
        self._size = os.fstat(self._fd).st_size

    def data_ranges(self) -> list[tuple[int, int]]:
        # Cached pages count as data, so call this before the first read: reading a reserved but
        # empty file fills the page cache by read-ahead.
        found: list[tuple[int, int]] = []
        stop = 0
        try:
            while stop < self._size:
                start = os.lseek(self._fd, stop, os.SEEK_DATA)
                stop = os.lseek(self._fd, start, os.SEEK_HOLE)
                found.append((start, stop))
        except OSError as error:
            if error.errno != errno.ENXIO:
                return [(0, self._size)]  # the file system does not support it
        return found

    def sync(self) -> None:
        if self._fd < 0:
            return
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise SyncFailed(f"cannot sync {self._path}: {error.strerror}") from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise _failure(error, self._path, "cannot resize") from error
        self._size = size
        self._unmap()

    def _unmap(self) -> None:
        if self._map is not None:
            if self._guarded and (pages := guard()) is not None:
                pages.remove(self._guarded)
                self._guarded = 0
            # A reader may still hold a view of the map; the map then lives as long as the view.
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
            self._address = 0

    def close(self) -> None:
        self._unmap()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read_through(path: str, parts: Sequence[tuple[int, int]]) -> None:
    """Read parts of a file, (first byte, end); an error ends it.

    With a descriptor of its own: the file may be closed or removed while this thread reads.
    """
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        for start, stop in parts:
            while start < stop and (
                data := os.pread(file.fileno(), min(READ_STEP, stop - start), start)
            ):
                start += len(data)


class RealLock:
    """A POSIX record lock on byte 0, the range that Java's `FileChannel.tryLock(0, 1)` locks.

    The lock belongs to the process, so a second holder in the same process is refused by `held`.
    The lock is lost when any descriptor of the file is closed: no other code may open the file.
    """

    __slots__ = ("_fd", "_path")

    held: ClassVar[set[str]] = set()
    """Paths locked by this process."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self.held.add(path)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self.held.discard(self._path)


class RealDisk:
    """A directory tree on this machine; see `base.ports.Disk`.

    `elsewhere` maps top-level names of the tree to other directories, for example on another
    device.
    """

    def __init__(self, root: str, *, elsewhere: Mapping[str, str] | None = None) -> None:
        self._root = os.path.abspath(root)
        self._elsewhere = {name: os.path.abspath(at) for name, at in (elsewhere or {}).items()}
        for directory in (self._root, *self._elsewhere.values()):
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError as error:
                raise _failure(error, directory, "cannot make directory") from error

    @property
    def root(self) -> str:
        return self._root

    def _full(self, path: str) -> str:
        first, _, rest = path.partition("/")
        root = self._elsewhere.get(first)
        root, path = (self._root, path) if root is None else (root, rest)
        full = os.path.normpath(os.path.join(root, path))
        if full != root and not full.startswith(root + os.sep):
            raise UsageError(f"path {path!r} leads out of {root}")
        return full

    def open(self, path: str, *, create_size: int | None = None) -> RealFile:
        full = self._full(path)
        try:
            if create_size is None:
                return self.opened(full, os.open(full, os.O_RDWR | os.O_CLOEXEC))
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            try:
                fd = os.open(full, flags, 0o644)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                fd = os.open(full, flags, 0o644)
            try:
                os.ftruncate(fd, create_size)
                return self.opened(full, fd)
            except OSError:
                os.close(fd)
                raise
        except OSError as error:
            raise _failure(error, full, "cannot open") from error

    def opened(self, path: str, fd: int) -> RealFile:
        """Return the file of an open descriptor."""
        return RealFile(path, fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def list(self, path: str) -> "list[str]":
        try:
            return sorted(os.listdir(self._full(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _failure(error, path, "cannot list") from error

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(self._full(path))

    def size(self, path: str) -> int:
        return self._stat(path).st_size

    def modified_wall_ms(self, path: str) -> int:
        return self._stat(path).st_mtime_ns // 1_000_000

    def _stat(self, path: str) -> os.stat_result:
        try:
            return os.stat(self._full(path))
        except OSError as error:
            raise _failure(error, self._full(path), "cannot look at") from error

    def read_file(self, path: str) -> bytes | None:
        try:
            return Path(self._full(path)).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failure(error, self._full(path), "cannot read") from error

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        full = self._full(path)
        temp = full + ".tmp"
        try:
            self._make_folder(os.path.dirname(full))
            self._write_synced(temp, data)
            if backup and os.path.exists(full):
                self._write_synced(full + ".bak.tmp", Path(full).read_bytes())
                os.replace(full + ".bak.tmp", full + ".bak")
            os.replace(temp, full)
            self._sync_dir(os.path.dirname(full))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise _failure(error, full, "cannot write") from error

    def _make_folder(self, folder: str) -> None:
        """Create the folder and its parents durably.

        Syncing a file and its folder is not enough when the folder is new: the folder's own entry
        could be lost in a power cut, and the file with it.
        """
        if not os.path.isdir(folder):
            above = os.path.dirname(folder)
            self._make_folder(above)
            os.makedirs(folder, exist_ok=True)
            self._sync_dir(above)

    @staticmethod
    def _write_synced(full: str, data: bytes) -> None:
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            try:
                os.fsync(fd)
            except OSError as error:
                raise SyncFailed(f"cannot sync {full}: {error.strerror}") from error
        finally:
            os.close(fd)

    def make_dir(self, path: str) -> None:
        try:
            os.makedirs(self._full(path), exist_ok=True)
        except OSError as error:
            raise _failure(error, self._full(path), "cannot make directory") from error

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(self._full(source), self._full(target))
        except OSError as error:
            raise _failure(error, self._full(source), "cannot rename") from error

    def remove(self, path: str) -> None:
        full = self._full(path)
        try:
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure(error, full, "cannot remove") from error

    def sync_dir(self, path: str) -> None:
        try:
            self._sync_dir(self._full(path))
        except OSError as error:
            if error.errno in _SHORT:
                raise _failure(error, path, "cannot open the directory") from error
            raise SyncFailed(f"cannot sync directory {path}: {error.strerror}") from error

    @staticmethod
    def _sync_dir(full: str) -> None:
        fd = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> RealLock:
        full = os.path.realpath(self._full(path))
        if full in RealLock.held:
            raise StoreInUse(f"the store in {self._root} is in use by this very process")
        try:
            fd = os.open(full, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _failure(error, full, "cannot open lock file") from error
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            os.pwrite(fd, b"lock", 0)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise StoreInUse(
                    f"the store in {self._root} is in use by another process (lock file {full});"
                    " stop that one first"
                ) from error
            raise _failure(error, full, "cannot lock") from error
        return RealLock(full, fd)

    def usage(self) -> tuple[int, int]:
        """Return (bytes in all, bytes free) of the fullest of the file systems.

        Writes fail there first.
        """
        return min(
            map(_usage, {self._root, *self._elsewhere.values()}),
            key=lambda usage: usage[1] / max(usage[0], 1),
        )


def _usage(directory: str) -> tuple[int, int]:
    try:
        stat = os.statvfs(directory)
    except OSError as error:
        raise _failure(error, directory, "cannot look at the file system of") from error
    # Blocks reserved for root are neither used nor available: left out, as by `df` and Java.
    used = stat.f_blocks - stat.f_bfree
    return (used + stat.f_bavail) * stat.f_frsize, stat.f_bavail * stat.f_frsize
