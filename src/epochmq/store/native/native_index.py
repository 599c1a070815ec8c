"""Hashed keys into the slots of an index file, in one call."""

import ctypes

from epochmq.store.native.keys import KEY_BYTES
from epochmq.store.native.library import IndexArgs, Library

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
        """The items to append; `slots` and `dirty` are changed."""
        native.index_put(ctypes.addressof(self._args))
        return self._items.raw

    @property
    def used(self) -> int:
        """Slots that had no item before."""
        return int(self._args.used)


_Bytes = ctypes.c_char * 0
