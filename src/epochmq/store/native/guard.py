"""Maps of files whose pages may turn out to be unreadable: zeros and a count, and not SIGBUS.

One for the process, as its signals are. Without the native code such a page ends the process.
"""

import ctypes
from functools import lru_cache

from epochmq.store.native import library
from epochmq.store.native.memory import NativeMemory
from epochmq.store.native.native_records import address_of


class Guard:
    """Which maps are guarded, and how many of their pages could not be read."""

    def __init__(self, native: library.Library) -> None:
        self._native = native
        self._memory = NativeMemory(ctypes.sizeof(ctypes.c_int64))
        self._count = self._memory.view.cast("q")
        self.works = bool(native.guard_begin(self._memory.address))

    @property
    def faults(self) -> int:
        """Pages that could not be read so far; they read as zeros since."""
        return self._count[0]

    def add(self, view: memoryview) -> int:
        """Guard the map behind `view`; what `remove` wants, 0 when it is not guarded."""
        with address_of(view) as address:
            found = self.works and self._native.guard_add(address, len(view))
        return address if found else 0

    def remove(self, address: int) -> None:
        """Before the map that was added ends."""
        if address:
            self._native.guard_remove(address)


@lru_cache(maxsize=1)
def guard() -> Guard | None:
    """The process's guard; None without the native code."""
    native = library.library()
    return None if native is None else Guard(native)
