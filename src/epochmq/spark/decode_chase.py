"""Where each record of a run begins: every size leads to the next record.

Following sizes one by one costs more than decoding (facts/spark.md 3). So a long run is entered at
many places at once, found by the magic number, and all are followed in step. A guess counts only
when the chain before it ends exactly there: then it is a record, whatever bodies look like.
"""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochmq.base.types import Buffer
from epochmq.model.record import BLANK, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from epochmq.spark.decode_fault import CorruptRecord

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SIZE_MAX = 2**31 - 1
"""Sizes are Java ints."""
_SIZE = struct.Struct(">I")
_SMALLEST = BLANK.size
_MAGIC_FRONT = (MAGIC_V1 >> 8).to_bytes(3, "big")
_PROBE = 32
"""Records followed singly before it is decided in how many places to enter."""
_SINGLY = 512
"""Below so many records, entering at several places gains nothing."""
_SEARCH_BYTES = 64 * 1024
"""How far the magic number is looked for from each place."""


@dataclass(slots=True)
class Walk:
    """Starts and sizes of whole records without fillers; where to go on; what is wrong there."""

    at: Ints
    sizes: Ints
    stop: int
    fault: CorruptRecord | None


def chase(buffer: Buffer) -> Ints:
    """Starts of all records in `buffer`, fillers left out; CorruptRecord where the chain breaks."""
    view = memoryview(buffer).cast("B")
    walk = follow(view, 0, len(view))
    if walk.fault:
        raise walk.fault
    return walk.at


def follow(view: memoryview, begin: int, limit: int) -> Walk:
    """Follow the records that begin in `begin..limit`; the last may end behind `limit`."""
    raw = np.frombuffer(view, np.uint8)
    limit = min(limit, len(raw))
    at, stop = _leap(raw, view, begin, limit)
    sizes = u32(raw, at)
    magic = u32(raw, at + 4)
    blank = magic == MAGIC_BLANK
    known = blank | (magic == MAGIC_V1) | (magic == MAGIC_V2)
    if not known.all():
        first = int(np.argmin(known))
        return _walk(at[:first], sizes[:first], blank[:first], int(at[first]), _nothing(at[first]))
    fault = None
    if at.size and stop > len(raw) and not blank[-1]:
        stop = int(at[-1])
        fault = CorruptRecord(
            stop, f"it has {sizes[-1]} bytes, {len(raw) - stop} are there", "torn"
        )
        at, sizes, blank = at[:-1], sizes[:-1], blank[:-1]
    elif stop < limit:
        fault = _why_stopped(raw, stop)
    return _walk(at, sizes, blank, min(stop, len(raw)), fault)


def _walk(at: Ints, sizes: Ints, blank: Bytes, stop: int, fault: CorruptRecord | None) -> Walk:
    if blank.any():
        at, sizes = at[~blank], sizes[~blank]
    return Walk(at, sizes, stop, fault)


def _nothing(at: int) -> CorruptRecord:
    return CorruptRecord(int(at), "no magic number of a record", "nothing")


def _why_stopped(raw: Bytes, at: int) -> CorruptRecord:
    """The chain ends at `at` because of fewer than 8 bytes, or a size that leads nowhere."""
    if len(raw) - at < _SMALLEST:
        return CorruptRecord(at, f"only {len(raw) - at} bytes are left", "torn")
    size, magic = BLANK.unpack(raw[at : at + _SMALLEST].tobytes())
    if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        return _nothing(at)
    if magic != MAGIC_BLANK and size > len(raw) - at:
        return CorruptRecord(at, f"it has {size} bytes, {len(raw) - at} are there", "torn")
    return CorruptRecord(at, f"a size of {size} bytes is impossible")


def _leap(raw: Bytes, view: memoryview, begin: int, limit: int) -> tuple[Ints, int]:
    """Starts in `begin..limit` by sizes alone, and the place after the last."""
    singly, stop = _step(view, begin, limit, _PROBE)
    head = np.array(singly, np.int64)
    if stop >= limit or len(singly) < _PROBE:
        return head, stop
    count = (limit - stop) * _PROBE // (stop - begin)
    parts = [head]
    if count >= _SINGLY:
        found, stop = _in_step(raw, _entries(view, stop, limit, int((4 * count) ** 0.5)), limit)
        parts.append(found)
    rest, stop = _step(view, stop, limit, limit)
    parts.append(np.array(rest, np.int64))
    return np.concatenate(parts), stop


def _step(view: memoryview, at: int, limit: int, count: int) -> tuple[list[int], int]:
    """Follow up to `count` sizes one by one."""
    starts: list[int] = []
    size_at, add = _SIZE.unpack_from, starts.append
    last = min(limit, len(view) - _SMALLEST + 1)
    while at < last and count:
        (size,) = size_at(view, at)
        if not _SMALLEST <= size <= SIZE_MAX:
            break
        add(at)
        at += size
        count -= 1
    return starts, at


def _entries(view: memoryview, begin: int, limit: int, count: int) -> Ints:
    """`begin`, and the first likely record behind each of `count` places in `begin..limit`."""
    found = [begin]
    width = (limit - begin) // count
    reach = min(width, _SEARCH_BYTES)
    for place in range(begin + width, limit - width + 1, width):
        at = bytes(view[place : place + reach]).find(_MAGIC_FRONT)
        if at >= 4:
            found.append(place + at - 4)
    return np.array(found, np.int64)


def _in_step(raw: Bytes, entries: Ints, limit: int) -> tuple[Ints, int]:
    """Follow all entries at once; what is proven to be one chain from the first, and its end."""
    last = len(raw) - _SMALLEST
    ends = np.append(entries[1:], min(limit, last + 1))
    at = entries
    rows: list[Ints] = []
    most = 4 * int(limit - entries[0]) // (len(entries) * 91) + 8
    for turn in range(most):
        rows.append(at)
        size = u32(raw, np.minimum(at, last))
        at = at + np.where((at < ends) & (size >= _SMALLEST) & (size <= SIZE_MAX), size, 0)
        if turn & 7 == 7 and bool((at >= ends).all()):
            break
    arrived = at[:-1] == ends[:-1]
    good = len(at) if arrived.all() else int(np.argmin(arrived)) + 1
    table = np.stack(rows, axis=1)[:good]
    keep = table < ends[:good, None]
    keep[:, 1:] &= table[:, 1:] != table[:, :-1]  # one that leads nowhere stays where it is
    stop = int(at[good - 1])
    starts = table[keep]
    if starts.size and starts[-1] == stop:
        starts = starts[:-1]
    return starts, stop


def u32(raw: Bytes, at: Ints) -> Ints:
    """The big-endian numbers at the places `at`."""
    return gather(raw, at, 4).view(">u4").astype(np.int64)


def gather(raw: Bytes, at: Ints, size: int) -> NDArray[np.void]:
    """`size` bytes from each place. As opaque bytes: seven times faster than as fields."""
    if not at.size:
        return np.empty(0, f"V{size}")
    windows: NDArray[np.void] = np.ndarray((len(raw) - size + 1,), f"V{size}", raw, 0, (1,))
    return windows[at]
