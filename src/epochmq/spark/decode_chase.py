"""Where each record of a run begins: every size leads to the next record.

That is one memory access after the other, each waiting for the one before. So the bytes are read
through once beforehand, which the processor does ahead of time; they are needed anyhow.
"""

import struct
from dataclasses import dataclass
from typing import Any

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
_LINE = 64
"""Bytes that memory gives at a time."""
_TOUCHED_MAX = 8 * 1024 * 1024
"""What is read through beforehand must still be in the cache when it is used."""


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
    if limit - begin <= _TOUCHED_MAX:
        raw[begin:limit:_LINE].max(initial=0)
    at, stop = _step(view, begin, limit)
    sizes = u32(raw, at)
    magic = u32(raw, at + 4)
    blank = magic == MAGIC_BLANK
    known = blank | (magic == MAGIC_V1) | (magic == MAGIC_V2)
    if not known.all():
        first = int(np.argmin(known))
        return _walk(at[:first], sizes[:first], blank[:first], int(at[first]), _nothing(at[first]))
    fault = None
    if at.size and (sizes[-1] > SIZE_MAX or (stop > len(raw) and not blank[-1])):
        stop = int(at[-1])
        fault = _why_stopped(raw, stop)
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


def _step(view: memoryview, at: int, limit: int) -> tuple[Ints, int]:
    """Starts by sizes alone, and the place behind the last, or of one that leads nowhere."""
    starts: list[int] = []
    size_at, add = _SIZE.unpack_from, starts.append
    last = min(limit, len(view) - _SMALLEST + 1)
    while at < last:
        (size,) = size_at(view, at)
        if size < _SMALLEST:
            break
        add(at)
        at += size
    return np.array(starts, np.int64), at


def u32(raw: Bytes, at: Ints) -> Ints:
    """The big-endian numbers at the places `at`."""
    return gather(raw, at, 4).view(">u4").astype(np.int64)


def gather(raw: Bytes, at: Ints, size: int) -> NDArray[np.void]:
    """`size` bytes from each place. As opaque bytes: seven times faster than as fields."""
    if not at.size:
        return np.empty(0, f"V{size}")
    windows: NDArray[np.void] = np.ndarray((len(raw) - size + 1,), f"V{size}", raw, 0, (1,))
    return windows[at]


def address(array: NDArray[Any]) -> int:
    """Where an array's first element lies; `array.ctypes` takes several times as long."""
    place: int = array.__array_interface__["data"][0]
    return place
