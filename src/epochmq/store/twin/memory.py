"""Memory that the twin writes to: zero, and the system's until it is touched.

ctypes and bytearray fill what they allocate, so 8 MiB for the rare large turn would be 8 MiB of
every broker.
"""

import ctypes
import weakref

_calloc, _free = ctypes.pythonapi.PyMem_RawCalloc, ctypes.pythonapi.PyMem_RawFree
_calloc.argtypes, _calloc.restype = [ctypes.c_size_t, ctypes.c_size_t], ctypes.c_void_p
_free.argtypes, _free.restype = [ctypes.c_void_p], None


class Memory:
    """`size` bytes at `address`; they live as long as this or any part of `view` does."""

    def __init__(self, size: int) -> None:
        address = _calloc(size, 1)
        if not address:
            raise MemoryError(f"no {size} bytes for the compiled twin")
        self.address: int = address
        owner = (ctypes.c_char * size).from_address(address)
        weakref.finalize(owner, _free, address).atexit = False
        self.view = memoryview(owner).cast("B")
