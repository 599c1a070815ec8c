"""Adds hashed keys to the slots of an index file, in one native call."""

import ctypes
from struct import Struct

import msgspec

from epochmq.native.library import IndexArgs, Library

# Keys ----------------------------------------------------------------------------------------
# Index keys that the native code has hashed: they stay packed until they are indexed.


_KEY = Struct("=qqII")
"""i64 log offset, i64 store ms, u32 hash of topic#key, 4 unused; the machine's own order."""

KEY_BYTES = _KEY.size


class PackedKeys(msgspec.Struct, gc=False):
    """Keys of adjacent messages, in log order."""

    data: bytes
    offset: int
    """Log offset of the first message."""
    end: int
    """End of the last message's record."""
    wall_ms: int
    """Store time of all of them."""

    def __len__(self) -> int:
        return len(self.data) // KEY_BYTES


def place_of(data: bytes, at: int) -> tuple[int, int]:
    """Return (log offset, store ms) of the key at byte `at`."""
    offset, wall, _, _ = _KEY.unpack_from(data, at)
    return offset, wall


def unpack_keys(data: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """Return (hashes, places), the arguments of `IndexFile.put`."""
    rows = list(_KEY.iter_unpack(data))
    return [row[2] for row in rows], [(row[0], row[1]) for row in rows]


# Native index --------------------------------------------------------------------------------


_ITEM_BYTES = 20


class IndexPut:
    """Adds `data` to `slots` (int32, native) from item `number` on, marking pages in `dirty`."""

    def __init__(
        self, data: bytes, slots: memoryview, dirty: bytearray, number: int, first_wall: int
    ) -> None:
        self._items = ctypes.create_string_buffer(len(data) // KEY_BYTES * _ITEM_BYTES)
        # Held until the call is over, so that neither can be moved.
        self._slots, self._dirty = _Bytes.from_buffer(slots), _Bytes.from_buffer(dirty)
        self._args = IndexArgs(
            keys=data,
            count=len(data) // KEY_BYTES,
            slots=ctypes.addressof(self._slots),
            slots_max=len(slots),
            dirty=ctypes.addressof(self._dirty),
            number=number,
            first_wall=first_wall,
            items=ctypes.addressof(self._items),
        )

    def run(self, native: Library) -> bytes:
        """Return the items to append; change `slots` and `dirty`."""
        native.index_put(ctypes.addressof(self._args))
        return self._items.raw

    @property
    def used(self) -> int:
        """Number of slots that had no item before."""
        return int(self._args.used)


_Bytes = ctypes.c_char * 0
