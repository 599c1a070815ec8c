"""Memory for the native code: zero, and allocated by the system only when it is written.

ctypes and bytearray fill what they allocate. The C library reuses freed memory and fills it: its
limit for asking the system grows to the size of the last freed block. So 8 MiB for a rare large
turn would cost every broker 8 MiB. Mapped pages are allocated lazily each time, and are returned to
the system at once.
"""

import ctypes
import mmap
import sys


class NativeMemory:
    """`size` bytes at `address`, which live as long as this object or any part of `view`."""

    def __init__(self, size: int) -> None:
        try:
            pages = _pages(size)
        except OSError as error:
            raise MemoryError(f"no {size} bytes for the native code") from error
        self.address: int = ctypes.addressof((ctypes.c_char * size).from_buffer(pages))
        self.view = memoryview(pages)


def _pages(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
