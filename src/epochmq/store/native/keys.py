"""Index keys that the native code has hashed: they wait packed until the index takes them."""

from struct import Struct

import msgspec

_KEY = Struct("=qqII")
"""i64 log offset, i64 store ms, u32 hash of topic#key, 4 unused; the machine's own order."""

KEY_BYTES = _KEY.size


class PackedKeys(msgspec.Struct, gc=False):
    """Keys of neighbouring messages, in the log's order."""

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
    """(log offset, store ms) of the key at byte `at`."""
    offset, wall, _, _ = _KEY.unpack_from(data, at)
    return offset, wall


def unpack_keys(data: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """(hashes, places) as `IndexFile.put` takes them."""
    rows = list(_KEY.iter_unpack(data))
    return [row[2] for row in rows], [(row[0], row[1]) for row in rows]
