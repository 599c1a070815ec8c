"""Memory that the native code writes to: zero, and the system's until it is touched.

ctypes and bytearray fill what they allocate, and the C library hands out again what others gave
back and fills that: its limit for asking the system rises to the size of whatever was given back
last. 8 MiB for the rare large turn would be 8 MiB of every broker. Pages of the system's own are
lazy each time, and go back to it at once.
"""

import ctypes
import mmap
import sys


class NativeMemory:
    """`size` bytes at `address`; they live as long as this or any part of `view` does."""

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
