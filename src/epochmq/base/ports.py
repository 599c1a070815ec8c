"""What the product needs of the machine, as Protocols: `runtime` implements them, and `sim`, too.

Only these may bring time, disk, threads or chance into the lower layers (determinism rule 4).
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

# Types ---------------------------------------------------------------------------------------
# The type of byte buffers.


Buffer = bytes | bytearray | memoryview
"""What may be written: anything that holds bytes."""


# Ports ---------------------------------------------------------------------------------------


T = TypeVar("T")


class Clock(Protocol):
    """Two clocks: every deadline is monotonic, wall time only goes into messages and logs."""

    def now_ms(self) -> int:
        """Monotonic milliseconds; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""
        ...


class Rng(Protocol):
    """Chance, seeded in the simulator."""

    def randrange(self, stop: int) -> int: ...


class File(Protocol):
    """One open file of fixed size, or one that grows by writing at its end.

    Errors: `DiskFull` for no space, `SyncFailed` for a failed sync, `DiskFailed` otherwise.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes, as the file system has it."""
        ...

    def fileno(self) -> int:
        """Descriptor for `os.sendfile`, good until `close`; -1 for a simulated file."""
        ...

    def write(self, offset: int, data: Buffer) -> None:
        """Store all of `data` at `offset`; visible to `read` and `view` at once, not yet synced."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; shorter only at the end of the file."""
        ...

    def view(self) -> memoryview:
        """The whole file, read-only, without a copy; stays coherent with `write`."""
        ...

    def forget_view(self) -> None:
        """Let the next `view` look at the file anew: a page that could not be read is zeros in
        those there are."""
        ...

    def allocate(self, offset: int, size: int) -> None:
        """Reserve space so that writing there cannot run out of it; content is kept."""
        ...

    def data_ranges(self) -> list[tuple[int, int]]:
        """[start, stop) ranges, in order, outside of which all bytes are zero."""
        ...

    def sync(self) -> None:
        """Make everything written so far durable (fdatasync). Blocks; never retried on failure.

        May run in another thread beside `write`; of a closed file there is nothing left to do.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A held lock on a file; released by `release` or by the death of the process."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are relative to its root and are checked to stay inside it."""

    def open(self, path: str, *, create_size: int | None = None) -> File:
        """Open `path`; with `create_size` make it, with its parents, pre-sized with zeros."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in the directory `path`, sorted; empty when there is no such directory."""
        ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_wall_ms(self, path: str) -> int: ...

    def read_file(self, path: str) -> bytes | None:
        """All of a small file, or None when it is not there."""
        ...

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Atomically and durably: write temp, sync, keep `.bak` if asked, rename, sync dir."""
        ...

    def make_dir(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; nothing there is no error."""
        ...

    def sync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Exclusive lock on bytes [0, 1) of `path`; `StoreInUse` when another holds it."""
        ...

    def usage(self) -> tuple[int, int]:
        """(total, free) bytes of the file system under the root."""
        ...


class Blocking(Protocol):
    """Runs a blocking call beside the loop (a thread in production, a drawn latency in sim)."""

    async def run(self, call: Callable[[], T]) -> T: ...
