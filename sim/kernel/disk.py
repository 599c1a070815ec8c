"""A simulated disk that loses at a crash what a real one may lose: `base.ports.Disk` in memory.

Writes are volatile until a sync of their file, and directory entries until a sync of their
directory. A crash keeps, for each file and directory separately, a random prefix of the volatile
changes. The write at the cut is torn at a 512-byte border, and sectors of later writes may have
reached the disk before it. Space is a quota of 4 KiB blocks. Every changing operation is counted,
and the power can be cut at any of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from epochmq.base.errors import (
    DiskFailed,
    DiskFull,
    OtherFileSystem,
    StoreInUse,
    SyncFailed,
    UsageError,
)
from epochmq.base.ports import Buffer

SECTOR = 512
BLOCK = 4096
PLENTY = 1 << 40
"""A quota that nobody counts blocks for."""


class PowerCut(BaseException):
    """Raised when the machine is off; not an Exception, so that no code under test handles it."""


@dataclass(eq=False)
class Inode:
    """One file's bytes: as the process sees them, as the device has them, and what is between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes] | int] = field(default_factory=list)
    """Writes (offset, bytes) and resizes (int) since the last sync."""
    blocks: set[int] = field(default_factory=set)
    wall_ms: int = 0

    def resize(self, size: int) -> None:
        data, kept = bytearray(size), min(size, len(self.data))
        data[:kept] = memoryview(self.data)[:kept]
        self.data = data
        self.waiting.append(size)
        self.blocks = {block for block in self.blocks if block * BLOCK < size}

    def settle(self) -> None:
        for change in self.waiting:
            _apply(self.durable, change)
        self.waiting.clear()

    def survive(self, rng: Random) -> "Inode":
        """This file after a power cut: a prefix of the waiting writes, the next one torn; half
        the time also any sectors of later ones, as a cache writes pages back in any order."""
        keep = rng.randint(0, len(self.waiting))
        left = bytearray(self.durable)
        for change in self.waiting[:keep]:
            _apply(left, change)
        later = self.waiting[keep:]
        if later and not isinstance(later[0], int):
            _apply(left, _tear(later[0], rng))
        if rng.randrange(2):
            lost: set[int] = set()
            for change in later:
                if isinstance(change, int):
                    break  # a resize orders what comes after it
                for sector in _sectors(change):
                    # A sector is written as the cache has it: never a later change without an
                    # earlier one of the same sector.
                    if sector[0] // SECTOR in lost:
                        continue
                    if rng.randrange(2):
                        _apply(left, sector)
                    else:
                        lost.add(sector[0] // SECTOR)
        return Inode(bytearray(left), left, [], set(self.blocks), self.wall_ms)

    def copy(self) -> "Inode":
        """This file after the death of the process alone: the cache lives."""
        return Inode(
            bytearray(self.data),
            bytearray(self.durable),
            list(self.waiting),
            set(self.blocks),
            self.wall_ms,
        )


def _apply(target: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        del target[change:]
        target.extend(bytes(change - len(target)))
        return
    offset, data = change
    if len(target) < offset:
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data


def _tear(change: tuple[int, bytes], rng: Random) -> tuple[int, bytes]:
    offset, data = change
    first = -(-(offset + 1) // SECTOR) * SECTOR
    edges = range(first, offset + len(data), SECTOR)
    return (offset, data[: rng.choice(edges) - offset]) if edges else (offset, b"")


def _sectors(change: tuple[int, bytes]) -> list[tuple[int, bytes]]:
    offset, data = change
    edges = [offset, *range(offset - offset % SECTOR + SECTOR, offset + len(data), SECTOR)]
    return [(at, data[at - offset : at - at % SECTOR + SECTOR - offset]) for at in edges]


class SimFile:
    """An open file; see `base.ports.File`."""

    def __init__(self, disk: "SimDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def fileno(self) -> int:
        return -1

    def write(self, offset: int, data: Buffer) -> None:
        inode = self._open()
        taken, full = self._disk.take_blocks(inode, offset, len(data))
        part = bytes(data)[:taken]
        if offset + len(part) > len(inode.data):
            inode.data = bytearray(inode.data.ljust(offset + len(part), b"\0"))
        memoryview(inode.data)[offset : offset + len(part)] = part
        if part:
            inode.waiting.append((offset, part))
        inode.wall_ms = self._disk.wall_ms
        self._disk.step(f"write {self._path} {offset}+{len(data)}")
        if full:
            raise DiskFull(f"cannot write to {self._path}: no space")

    def _open(self) -> Inode:
        if self._closed:
            raise DiskFailed(f"{self._path} is closed")
        return self._inode

    def read(self, offset: int, size: int) -> bytes:
        self._disk.alive()
        return bytes(self._open().data[offset : offset + size])

    def is_in_memory(self, offset: int, size: int) -> bool:
        return self._path not in self._disk.evicted

    def prefetcher(self, parts: Sequence[tuple[int, int]]) -> Callable[[], None]:
        return lambda: self._disk.evicted.discard(self._path)

    def view(self) -> memoryview:
        self._disk.alive()
        return memoryview(self._open().data).toreadonly()

    def forget_view(self) -> None:
        """Views are the file itself."""

    def allocate(self, offset: int, size: int) -> None:
        inode = self._open()
        _taken, full = self._disk.take_blocks(inode, offset, size)
        self._disk.step(f"allocate {self._path}")
        if full:
            raise DiskFull(f"cannot reserve space for {self._path}")

    def data_ranges(self) -> "list[tuple[int, int]]":
        data = self._open().data
        blocks = range(0, len(data), BLOCK)
        return [(at, min(at + BLOCK, len(data))) for at in blocks if any(data[at : at + BLOCK])]

    def sync(self) -> None:
        if self._closed:
            return
        inode = self._inode
        self._disk.step(f"sync {self._path}")
        if self._disk.sync_fails(self._path):
            inode.waiting.clear()  # the cache calls the pages clean, the device never got them
            self._disk.doubtful = True
            raise SyncFailed(f"cannot sync {self._path}")
        inode.settle()

    def truncate(self, size: int) -> None:
        self._open().resize(size)
        self._disk.step(f"truncate {self._path}")

    def close(self) -> None:
        self._closed = True


class SimLock:
    """A held lock; see `base.ports.Lock`."""

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


@dataclass
class _Entry:
    """One waiting change of a directory: `path` names `inode` (None: a directory) or nothing."""

    path: str
    inode: Inode | None
    gone: bool = False
    renamed_from: str | None = None


class SimDisk:
    """A directory tree in memory; see `base.ports.Disk`.

    Folders in `mounted` are file systems of their own: no rename leads into them or out of them.
    """

    def __init__(self, quota_bytes: int = PLENTY, mounted: Iterable[str] = ()) -> None:
        self.quota_bytes = quota_bytes
        self.mounted = frozenset(mounted)
        self.wall_ms = 0
        """Modification time that writes get."""
        self.operations = 0
        self.stop_at: int | None = None
        """Number of the operation at which the power is cut."""
        self.on_operation: Callable[[int, str], None] | None = None
        self.sync_fails: Callable[[str], bool] = lambda _path: False
        """Asked with the path at each sync; True makes it fail."""
        self.evicted: set[str] = set()
        """Paths of files that are not in memory; `SimFile.prefetcher` brings them back."""
        self.doubtful = False
        """A sync failed: the cache shows bytes that it will never write."""
        self._off = False
        self._files: dict[str, Inode] = {}
        self._dirs: set[str] = {""}
        self._durable_files: dict[str, Inode] = {}
        self._durable_dirs: set[str] = {""}
        self._waiting: dict[str, list[_Entry]] = {}
        self._names: dict[str, set[str]] | None = None
        """The names in each directory, once somebody listed one."""
        self._locks: set[str] = set()

    # The harness's side -----------------------------------------------------------------------

    def alive(self) -> None:
        if self._off:
            raise PowerCut

    @property
    def is_on(self) -> bool:
        return not self._off

    def step(self, what: str) -> None:
        """Count one operation; the power may go right after it."""
        self.alive()
        self.operations += 1
        if self.on_operation is not None:
            self.on_operation(self.operations, what)
        if self.operations == self.stop_at:
            self._off = True
            raise PowerCut

    def take_blocks(self, inode: Inode, offset: int, size: int) -> tuple[int, bool]:
        """Reserve blocks; (how many of the bytes have space, whether it ran out)."""
        blocks = range(offset // BLOCK, -(-(offset + size) // BLOCK))
        if self.quota_bytes >= PLENTY:
            inode.blocks.update(blocks)
            return size, False
        free = (self.quota_bytes - self._used()) // BLOCK
        for block in blocks:
            if block not in inode.blocks:
                if free <= 0:
                    return max(0, block * BLOCK - offset), True
                free -= 1
                inode.blocks.add(block)
        return size, False

    def _used(self) -> int:
        return sum(len(inode.blocks) for inode in self._files.values()) * BLOCK

    def crash(self, seed: object) -> "SimDisk":
        """Return the disk as it is after a power cut."""
        rng = Random(f"{seed}:disk")
        after = SimDisk(self.quota_bytes, self.mounted)
        after.wall_ms = self.wall_ms
        files, dirs = dict(self._durable_files), set(self._durable_dirs)
        for folder in sorted(self._waiting):
            entries = self._waiting[folder]
            for entry in entries[: rng.randint(0, len(entries))]:
                _enter(entry, files, dirs)
        survivors: dict[int, Inode] = {}
        for path in sorted(files):
            if _reachable(path, dirs):
                inode = files[path]
                if id(inode) not in survivors:
                    survivors[id(inode)] = inode.survive(rng)
                after._files[path] = survivors[id(inode)]
        after._dirs = {path for path in dirs if _reachable(path, dirs)}
        after._durable_files = dict(after._files)
        after._durable_dirs = set(after._dirs)
        return after

    def kill(self) -> "SimDisk":
        """Return the disk as it is after the process was killed: all written data is there."""
        after = SimDisk(self.quota_bytes, self.mounted)
        after.wall_ms = self.wall_ms
        inodes = [*self._files.values(), *self._durable_files.values()]
        inodes += [e.inode for entries in self._waiting.values() for e in entries if e.inode]
        copies = {id(inode): inode.copy() for inode in inodes}
        after._files = {path: copies[id(i)] for path, i in self._files.items()}
        after._durable_files = {path: copies[id(i)] for path, i in self._durable_files.items()}
        after._dirs, after._durable_dirs = set(self._dirs), set(self._durable_dirs)
        after._waiting = {
            folder: [
                _Entry(e.path, e.inode and copies.get(id(e.inode)), e.gone, e.renamed_from)
                for e in entries
            ]
            for folder, entries in self._waiting.items()
        }
        return after

    def contents(self) -> dict[str, bytes]:
        """All files as a process sees them."""
        return {path: bytes(inode.data) for path, inode in sorted(self._files.items())}

    def inode_at(self, path: str) -> Inode | None:
        """The bytes of a file, to be damaged."""
        return self._files.get(path)

    # The port ---------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        if self._off:
            raise PowerCut
        if path.startswith("/") or (".." in path and ".." in path.split("/")):
            raise UsageError(f"path {path!r} leads out of the disk")
        return path.strip("/")

    def _change(self, entry: _Entry) -> None:
        self._waiting.setdefault(_parent(entry.path), []).append(entry)
        _enter(entry, self._files, self._dirs)
        if self._names is not None:
            for path in (entry.path, entry.renamed_from):
                if path is not None:
                    self._enter_name(path)

    def _enter_name(self, path: str) -> None:
        assert self._names is not None
        folder, _, name = path.rpartition("/")
        names = self._names.setdefault(folder, set())
        if path in self._files or path in self._dirs:
            names.add(name)
        else:
            names.discard(name)

    def _names_in(self, folder: str) -> set[str]:
        """Return the names of the files and directories in `folder`."""
        if self._names is None:
            self._names = {}
            for path in (*self._files, *self._dirs):
                self._enter_name(path)
            self._names[""].discard("")  # the root is in no directory
        return self._names.get(folder, set())

    def _below(self, path: str) -> "list[str]":
        """Return `path`, if it exists, and everything below it."""
        found = [path] if path in self._files or path in self._dirs else []
        for name in self._names_in(path):
            found += self._below(f"{path}/{name}" if path else name)
        return found

    def open(self, path: str, *, create_size: int | None = None) -> SimFile:
        path = self._path(path)
        inode = self._files.get(path)
        if inode is None:
            if create_size is None:
                raise DiskFailed(f"cannot open {path}: no such file")
            self.make_dir(_parent(path))
            inode = Inode(wall_ms=self.wall_ms)
            self._change(_Entry(path, inode))
            self.step(f"create {path}")
        if create_size is not None and len(inode.data) != create_size:
            inode.resize(create_size)
            self.step(f"resize {path}")
        return SimFile(self, path, inode)

    def exists(self, path: str) -> bool:
        path = self._path(path)
        return path in self._files or path in self._dirs

    def list(self, path: str) -> "list[str]":
        return sorted(self._names_in(self._path(path)))

    def is_dir(self, path: str) -> bool:
        return self._path(path) in self._dirs

    def _inode(self, path: str) -> Inode:
        inode = self._files.get(self._path(path))
        if inode is None:
            raise DiskFailed(f"cannot look at {path}: no such file")
        return inode

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_wall_ms(self, path: str) -> int:
        return self._inode(path).wall_ms

    def read_file(self, path: str) -> bytes | None:
        inode = self._files.get(self._path(path))
        return None if inode is None else bytes(inode.data)

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        path = self._path(path)
        old = self.read_file(path)
        self._make_synced(_parent(path))
        self._write_synced(path + ".tmp", data)
        if backup and old is not None:
            self._write_synced(path + ".bak.tmp", old)
            self.rename(path + ".bak.tmp", path + ".bak")
        self.rename(path + ".tmp", path)
        self.sync_dir(_parent(path))

    def _make_synced(self, folder: str) -> None:
        """With all above it, as `runtime/disk.py` does for a file that is written whole."""
        if folder not in self._dirs:
            self._make_synced(_parent(folder))
            self.make_dir(folder)
            self.sync_dir(_parent(folder))

    def _write_synced(self, path: str, data: bytes) -> None:
        file = self.open(path, create_size=0)
        try:
            file.write(0, data)
            file.sync()
        except (DiskFull, DiskFailed):
            self.remove(path)
            raise

    def make_dir(self, path: str) -> None:
        path = self._path(path)
        if path in self._dirs:
            return
        self.make_dir(_parent(path))
        self._change(_Entry(path, None))
        self.step(f"mkdir {path}")

    def rename(self, source: str, target: str) -> None:
        source, target = self._path(source), self._path(target)
        folders = {path.partition("/")[0] for path in (source, target)}
        if len(folders) > 1 and folders & self.mounted:
            raise OtherFileSystem(f"cannot rename {source}: Invalid cross-device link")
        self._change(_Entry(target, self._inode(source), renamed_from=source))
        self.step(f"rename {source} {target}")

    def remove(self, path: str) -> None:
        path = self._path(path)
        for gone in sorted(self._below(path), reverse=True):
            self._change(_Entry(gone, self._files.get(gone), gone=True))
            self.step(f"remove {gone}")

    def sync_dir(self, path: str) -> None:
        path = self._path(path)
        self.step(f"sync_dir {path}")
        if self.sync_fails(path):
            raise SyncFailed(f"cannot sync directory {path}")
        for entry in self._waiting.pop(path, []):
            _enter(entry, self._durable_files, self._durable_dirs)

    def lock(self, path: str) -> SimLock:
        path = self._path(path)
        if path in self._locks:
            raise StoreInUse(f"{path} is held")
        self._locks.add(path)
        return SimLock(self._locks, path)

    def usage(self) -> tuple[int, int]:
        self.alive()
        return self.quota_bytes, max(0, self.quota_bytes - self._used())


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _enter(entry: _Entry, files: dict[str, Inode], dirs: set[str]) -> None:
    """Carry one change of a directory out."""
    if entry.gone:
        files.pop(entry.path, None)
        dirs.discard(entry.path)
        return
    if entry.renamed_from is not None:
        files.pop(entry.renamed_from, None)
    if entry.inode is None:
        dirs.add(entry.path)
    else:
        files[entry.path] = entry.inode


def _reachable(path: str, dirs: set[str]) -> bool:
    while path:
        path = _parent(path)
        if path not in dirs:
            return False
    return True
