"""Index keys that wait in memory until their messages are confirmed (replication only).

An index file whose messages were cut must be rebuilt as a whole. So under replication keys are
indexed only once their record is readable, in log order.
"""

from bisect import bisect_left
from collections.abc import Sequence
from struct import unpack

from epochmq.model.tags import extend_hash
from epochmq.native.native_index import KEY_BYTES, PackedKeys, place_of
from epochmq.store.commit_log import CommitLog

Row = tuple[str, tuple[str, ...], int, int]
"""(topic, keys, log offset, store ms) of one message."""

Staged = list[Row | PackedKeys]
"""Keys that are not indexed yet, in log order; the native code's keys are hashed already."""

HELD_KEYS_MAX = 65_536
"""Limit of messages whose keys wait; more are indexed early, which makes a later cut slow."""


def _offset(row: Row | PackedKeys) -> int:
    return row.offset if isinstance(row, PackedKeys) else row[2]


def waiting_keys(staged: Staged) -> int:
    """Return how many messages (or packed keys) wait."""
    return sum(len(row) if isinstance(row, PackedKeys) else 1 for row in staged)


def ready_rows(staged: Staged, readable: int, log: CommitLog) -> int:
    """Return how many leading rows belong to records that end at or below `readable`.

    Packed keys that are only partly readable are split into two rows.
    """
    count = bisect_left(staged, readable, key=_offset)
    if count == 0:
        return 0
    last = staged[count - 1]
    if not isinstance(last, PackedKeys):
        return count if _ends(last[2], log) <= readable else count - 1
    if last.end <= readable:
        return count
    keys = _keys_below(last, readable)
    while keys and _ends(place_of(last.data, (keys - 1) * KEY_BYTES)[0], log) > readable:
        keys = _keys_below(last, place_of(last.data, (keys - 1) * KEY_BYTES)[0])
    if keys == 0:
        return count - 1
    if keys < len(last):
        rest = last.data[keys * KEY_BYTES :]
        offset, wall = place_of(rest, 0)
        staged.insert(count, PackedKeys(rest, offset, last.end, wall))
    staged[count - 1] = PackedKeys(
        last.data[: keys * KEY_BYTES], last.offset, readable, last.wall_ms
    )
    return count


def _ends(offset: int, log: CommitLog) -> int:
    """Return where the record at `offset` ends."""
    head = log.slice(offset, 4)
    return offset + (int.from_bytes(head, "big") if head is not None else 1 << 62)


def _keys_below(keys: PackedKeys, offset: int) -> int:
    """Return how many of `keys` belong to records that begin below `offset`."""
    return bisect_left(
        range(len(keys)), offset, key=lambda n: place_of(keys.data, n * KEY_BYTES)[0]
    )


def cut_rows(staged: Staged, end: int) -> None:
    """Remove the keys of messages at or beyond `end`, after a cut of the log."""
    del staged[bisect_left(staged, end, key=_offset) :]
    last = staged[-1] if staged else None
    if isinstance(last, PackedKeys) and last.end > end:
        data = last.data[: _keys_below(last, end) * KEY_BYTES]
        staged[-1] = PackedKeys(data, last.offset, end, last.wall_ms)


# Key hash ------------------------------------------------------------------------------------
# Java's hash of many index keys at once.
#
# Hashing a unique key's 32 characters one by one costs more than the rest of its index entry. So
# keys are padded in front with zeros (which do not change the hash) to one width, laid side by
# side in one big integer, and folded: neighbouring bytes, then pairs, then fours, each step for
# all keys at once in groups of bits wide enough not to overflow.


WIDTH = 32
"""Bytes of a padded key; longer and non-ASCII keys are hashed one by one."""

BATCH = 64
_MASK_32 = 0xFFFFFFFF
_POWERS = tuple(pow(31, n, 1 << 32) for n in range(WIDTH + 1))


def _mask(width: int) -> int:
    """Return a mask with the lower half set in each group of `width` bytes."""
    half = width // 2
    return int.from_bytes((bytes(half) + b"\xff" * half) * (WIDTH * BATCH // width), "big")


_M8, _M16, _M32 = _mask(2), _mask(4), _mask(8)


def java_hashes(prefixes: Sequence[int], keys: Sequence[str]) -> list[int]:
    """Return the unsigned 32-bit Java hash of each key, continued from its prefix's hash."""
    found: list[int] = []
    for at in range(0, len(keys), BATCH):
        piece = keys[at : at + BATCH]
        before = prefixes[at : at + BATCH]
        packed = "".join([key.rjust(WIDTH, "\0") for key in piece])
        if packed.isascii() and len(packed) == WIDTH * len(piece):
            powers = _POWERS
            found += [
                prefix * powers[len(key)] + value & _MASK_32
                for prefix, key, value in zip(before, piece, _fold(packed.encode()), strict=True)
            ]
        else:
            found += map(one_hash, before, piece)
    return found


def one_hash(prefix: int, key: str) -> int:
    """Return the unsigned 32-bit Java hash of `key`, continued from the hash `prefix`."""
    return extend_hash(prefix, key) & _MASK_32


def _fold(data: bytes) -> list[int]:
    """Return the hash, not yet reduced to 32 bits, of each `WIDTH` bytes of `data`."""
    value = int.from_bytes(data, "big")
    value = (value >> 8 & _M8) * 31 + (value & _M8)
    value = (value >> 16 & _M16) * 31**2 + (value & _M16)
    value = (value >> 32 & _M32) * 31**4 + (value & _M32)
    words = iter(unpack(f">{len(data) // 8}Q", value.to_bytes(len(data), "big")))
    w0, w1, w2 = _POWERS[24], _POWERS[16], _POWERS[8]
    return [
        a * w0 + b * w1 + c * w2 + d for a, b, c, d in zip(words, words, words, words, strict=True)
    ]
