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


class _PyBuffer(ctypes.Structure):
    """Py_buffer, needed for its address; its layout is the same in all versions of Python."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]  # fmt: skip


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = (
    [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int],
    ctypes.c_int,
)
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.POINTER(_PyBuffer)], None


class BufferAddress:
    """`with BufferAddress(view) as address`: the bytes of `view`, which may be read-only, stay at
    that address meanwhile.

    A class, because a generator would double the costs of a native call for one message.
    """

    __slots__ = ("_buffer",)

    def __init__(self, view: memoryview) -> None:
        self._buffer = _PyBuffer()
        _get(view, self._buffer, 0)

    def __enter__(self) -> int:
        address: int = self._buffer.buf
        return address

    def __exit__(self, *_: object) -> None:
        _release(self._buffer)
