"""The interfaces (Protocols) to the machine; `runtime` and `sim` implement them.

Only these may give the lower layers time, disk, threads or random numbers (determinism rule 4).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

# Types ---------------------------------------------------------------------------------------
# The type of byte buffers.


Buffer = bytes | bytearray | memoryview
"""Bytes that can be written."""


# Ports ---------------------------------------------------------------------------------------


T = TypeVar("T")


class Clock(Protocol):
    """A monotonic clock for deadlines, and a wall clock for messages and logs."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds, which never go back."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch; they may jump."""
        ...


class Rng(Protocol):
    """Random numbers; in the simulator they come from a seed."""

    def randrange(self, stop: int) -> int:
        """Return a number from 0 to `stop` - 1."""
        ...


class File(Protocol):
    """One open file.

    Errors: `DiskFull` for no space, `SyncFailed` for a failed sync, `DiskFailed` otherwise.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Size in bytes, according to the file system."""
        ...

    def fileno(self) -> int:
        """Return the descriptor for `os.sendfile`, valid until `close`; -1 for a simulated file."""
        ...

    def write(self, offset: int, data: Buffer) -> None:
        """Write all of `data` at `offset`; `read` and `view` see it at once. It is not
        synced yet.
        """
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def is_in_memory(self, offset: int, size: int) -> bool:
        """Return whether the view has these bytes without waiting for the device.

        True if the system does not say it.
        """
        ...

    def prefetcher(self, parts: Sequence[tuple[int, int]]) -> Callable[[], None]:
        """Return a call for another thread that reads `parts`, so that they are in memory.

        A part is (first byte, end). The file may be closed before the call. The call reports no
        failure; the next read of these bytes does.
        """
        ...

    def view(self) -> memoryview:
        """Return a read-only view of the whole file without a copy; it shows later writes."""
        ...

    def forget_view(self) -> None:
        """Make the next `view` read the file again: in existing views, an unreadable
        page is zeros.
        """
        ...

    def allocate(self, offset: int, size: int) -> None:
        """Reserve space, so that later writes there cannot run out of it; the content is kept."""
        ...

    def data_ranges(self) -> list[tuple[int, int]]:
        """Return [start, stop) ranges, in order; all bytes outside of them are zero."""
        ...

    def sync(self) -> None:
        """Make all writes so far durable (fdatasync). It blocks, and is not retried after a
        failure.

        It may run in another thread during `write`. For a closed file it does nothing.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock on a file, released by `release` or by the end of the process."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are relative to its root and must stay inside it."""

    def open(self, path: str, *, create_size: int | None = None) -> File:
        """Open `path`. With `create_size` create it with its parents, filled with that
        many zeros.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Return the names in the directory `path`, sorted; empty if there is no such directory."""
        ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_wall_ms(self, path: str) -> int:
        """Return the Unix ms of the last change of a file."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        ...

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Replace a file atomically and durably: write a temporary file, sync, rename, sync
        directory.

        With `backup` the old file is kept as `.bak`.
        """
        ...

    def make_dir(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; a missing path is no error."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the entries of a directory durable."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock bytes [0, 1) of `path` exclusively. Raises `StoreInUse` if another
        process holds it.
        """
        ...

    def usage(self) -> tuple[int, int]:
        """Return (total, free) bytes of the file system of the root."""
        ...


class Blocking(Protocol):
    """Runs a blocking call without blocking the event loop: in a thread, or with a
    simulated delay.
    """

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of `call`, or raise its error."""
        ...
