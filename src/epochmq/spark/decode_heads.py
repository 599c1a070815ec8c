"""The numpy decoder: finds records, reads their fixed parts, and makes cells of Arrow columns."""

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.base.ports import Buffer
from epochmq.model.host import V4_SIZE, V6_SIZE, format_addr, unpack
from epochmq.model.record import (
    BLANK,
    HEAD,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    OFFSET_AT,
    RecordError,
)
from epochmq.model.sys_flag import BORN_V6, HOSTS_V6_MASK, STORE_V6

# Decode fault --------------------------------------------------------------------------------
# The error for bytes that are not a record: where, why, and where the next record begins.


Kind = Literal["nothing", "torn", "damaged"]
"""No magic number; a record longer than the data; a record whose parts do not agree."""


class CorruptRecord(RecordError):
    """Raised when the bytes at `offset_in_buffer` are not a whole, consistent record.

    `kind` distinguishes the cases, as `model.record.check` does. `resume_at` is the next record's
    place when the size of this one is plausible, else None.
    """

    def __init__(
        self,
        offset_in_buffer: int,
        why: str,
        kind: Kind = "damaged",
        resume_at: int | None = None,
    ) -> None:
        super().__init__(f"no sound record at byte {offset_in_buffer}: {why}")
        self.offset_in_buffer = offset_in_buffer
        self.why = why
        self.kind: Kind = kind
        self.resume_at = resume_at

    def moved(self, by: int) -> "CorruptRecord":
        """Return the fault with places `by` bytes higher."""
        resume = None if self.resume_at is None else self.resume_at + by
        return CorruptRecord(self.offset_in_buffer + by, self.why, self.kind, resume)


# Decode chase --------------------------------------------------------------------------------
# Finds where each record begins, by following the sizes from record to record.
#
# That is a chain of memory accesses, each of which waits for the one before. Therefore the bytes
# are read once beforehand, which the processor can prefetch; they are needed later anyway.


Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SIZE_MAX = 2**31 - 1
"""Sizes are Java ints."""
_SIZE = struct.Struct(">I")
_SMALLEST_RECORD = BLANK.size
_LINE = 64
"""The size of a cache line in bytes."""
_TOUCHED_MAX = 8 * 1024 * 1024
"""The most bytes that are read beforehand, so that they are still in the cache when needed."""


@dataclass(slots=True)
class Walk:
    """Starts and sizes of whole records without fillers, the stop offset, and the fault there."""

    at: Ints
    sizes: Ints
    stop: int
    fault: CorruptRecord | None


def chase(buffer: Buffer) -> Ints:
    """Return the starts of all records in `buffer` without fillers.

    Raises `CorruptRecord` at the first invalid record.
    """
    view = memoryview(buffer).cast("B")
    walk = follow(view, 0, len(view))
    if walk.fault:
        raise walk.fault
    return walk.at


def follow(view: memoryview, begin: int, limit: int) -> Walk:
    """Find the records that begin in `begin..limit`; the last one may end after `limit`."""
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
    """Return the fault at `at`: fewer than 8 bytes, or an impossible size."""
    if len(raw) - at < _SMALLEST_RECORD:
        return CorruptRecord(at, f"only {len(raw) - at} bytes are left", "torn")
    size, magic = BLANK.unpack(raw[at : at + _SMALLEST_RECORD].tobytes())
    if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        return _nothing(at)
    if magic != MAGIC_BLANK and size > len(raw) - at:
        return CorruptRecord(at, f"it has {size} bytes, {len(raw) - at} are there", "torn")
    return CorruptRecord(at, f"a size of {size} bytes is impossible")


def _step(view: memoryview, at: int, limit: int) -> tuple[Ints, int]:
    """Return starts by sizes alone, and the place after the last record, or of an impossible
    size.
    """
    starts: list[int] = []
    size_at, add = _SIZE.unpack_from, starts.append
    last = min(limit, len(view) - _SMALLEST_RECORD + 1)
    while at < last:
        (size,) = size_at(view, at)
        if size < _SMALLEST_RECORD:
            break
        add(at)
        at += size
    return np.array(starts, np.int64), at


def u32(raw: Bytes, at: Ints) -> Ints:
    """Return the big-endian 32-bit numbers at the places `at`."""
    return gather(raw, at, 4).view(">u4").astype(np.int64)


def gather(raw: Bytes, at: Ints, size: int) -> NDArray[np.void]:
    """Copy `size` bytes from each place, as opaque bytes: seven times faster than as fields."""
    if not at.size:
        return np.empty(0, f"V{size}")
    windows: NDArray[np.void] = np.ndarray((len(raw) - size + 1,), f"V{size}", raw, 0, (1,))
    return windows[at]


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's data; `array.ctypes` takes several times as long."""
    place: int = array.__array_interface__["data"][0]
    return place


# Decode heads --------------------------------------------------------------------------------
# Reads the fixed parts of many records at once, with the checks of `model.record.check`.
#
# The head is copied as opaque bytes and then viewed as fields. IPv6 hosts shift the fields after
# them; such heads are assembled from pieces, so that all heads have one layout.


FIELDS = np.dtype(
    [
        ("size", ">u4"),
        ("magic", ">u4"),
        ("bodyCRC", ">i4"),
        ("queueId", ">i4"),
        ("flag", ">i4"),
        ("queueOffset", ">i8"),
        ("commitLogOffset", ">i8"),
        ("sysFlag", ">i4"),
        ("bornTimestamp", ">i8"),
        ("bornHost", "V8"),
        ("storeTimestamp", ">i8"),
        ("storeHost", "V8"),
        ("reconsumeTimes", ">i4"),
        ("preparedTransactionOffset", ">i8"),
        ("bodyLength", ">u4"),
    ]
)
"""The head with two IPv4 hosts; fields have the names of their columns."""

_BORN_HOST_AT = 48
_STORE_TIME_AT = 56
_STORE_HOST_AT = 64
_AFTER_HOSTS_AT = 72
_V6_EXTRA = 12
_SMALLEST = HEAD.size + 3
Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Rows:
    """Sound records of one buffer, as arrays with one element per record; places are in `raw`.

    The host fields of `head` are meaningless where `born6` or `store6` is set.
    """

    raw: Bytes
    at: Ints
    any_flag: int
    """All bits of the sys flags, and maybe more: a bit that is not set here is set in no row."""
    head: NDArray[np.void]
    """The fixed parts as fields, assembled from pieces for IPv6 hosts."""
    sys_flag: NDArray[np.int32]
    born6: Flags | None
    store6: Flags | None
    body_at: Ints
    body_to: Ints
    topic_at: Ints
    topic_to: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.at)

    def pick(self, which: slice | Flags) -> "Rows":
        """Return some of the rows; a slice gives views."""
        return replace(
            self,
            at=self.at[which],
            head=self.head[which],
            sys_flag=self.sys_flag[which],
            born6=None if self.born6 is None else self.born6[which],
            store6=None if self.store6 is None else self.store6[which],
            body_at=self.body_at[which],
            body_to=self.body_to[which],
            topic_at=self.topic_at[which],
            topic_to=self.topic_to[which],
            end=self.end[which],
        )

    @property
    def properties_at(self) -> Ints:
        return self.topic_to + 2

    @property
    def born_host_at(self) -> Ints:
        return self.at + _BORN_HOST_AT

    @property
    def store_host_at(self) -> Ints:
        at = self.at + _STORE_HOST_AT
        return at if self.born6 is None else at + _V6_EXTRA * self.born6


def read(raw: Bytes, at: Ints, sizes: Ints) -> tuple[Rows, CorruptRecord | None]:
    """Read the records at `at`, up to the first one that is inconsistent, and return that fault.

    `raw` must hold every record whole, with a correct magic number (`follow` checks both).
    """
    sound = sizes >= _SMALLEST
    if not sound.all():
        first = int(np.argmin(sound))
        rows, fault = read(raw, at[:first], sizes[:first])
        why = f"a size of {sizes[first]} bytes is too small"
        return rows, fault or _damaged(at[first], sizes[first], why)
    head = gather(raw, at, HEAD.size).view(FIELDS)
    flags = head["sysFlag"].astype(np.int32)
    if not (flags & HOSTS_V6_MASK).any():
        return _lengths(raw, at, sizes, head, flags, None, None)
    born6, store6 = (flags & BORN_V6) != 0, (flags & STORE_V6) != 0
    short = sizes < _SMALLEST + _V6_EXTRA * born6 + _V6_EXTRA * store6
    if short.any():
        first = int(np.argmax(short))
        rows, fault = read(raw, at[:first], sizes[:first])
        why = f"a size of {sizes[first]} bytes is too small for IPv6 hosts"
        return rows, fault or _damaged(at[first], sizes[first], why)
    head = _mixed_heads(raw, at, born6, store6)
    return _lengths(raw, at, sizes, head, flags, born6, store6)


def _mixed_heads(raw: Bytes, at: Ints, born6: Flags, store6: Flags) -> NDArray[np.void]:
    head = np.zeros((len(at), HEAD.size), np.uint8)
    born, both = _V6_EXTRA * born6, _V6_EXTRA * born6 + _V6_EXTRA * store6

    def put(to: int, source: Ints, size: int) -> None:
        head[:, to : to + size] = gather(raw, source, size).view(np.uint8).reshape(-1, size)

    put(0, at, _STORE_TIME_AT)
    put(_STORE_TIME_AT, at + _STORE_TIME_AT + born, 16)
    put(_AFTER_HOSTS_AT, at + _AFTER_HOSTS_AT + both, HEAD.size - _AFTER_HOSTS_AT)
    return head.reshape(-1).view(FIELDS)


def _lengths(
    raw: Bytes,
    at: Ints,
    sizes: Ints,
    head: NDArray[np.void],
    flags: NDArray[np.int32],
    born6: Flags | None,
    store6: Flags | None,
) -> tuple[Rows, CorruptRecord | None]:
    """Find body, topic and properties; stop at a record whose parts do not add up to its size."""
    end = at + sizes
    body_at = at + HEAD.size
    if born6 is not None and store6 is not None:
        body_at = body_at + _V6_EXTRA * born6 + _V6_EXTRA * store6
    body_to = body_at + head["bodyLength"]
    fits = body_to + 3 <= end
    # A record that does not fit is read at a harmless place, and dropped below.
    inside = body_to if fits.all() else np.where(fits, body_to, at)
    topic_at: Ints = inside + 1
    topic_to: Ints = topic_at + raw[inside]
    long = head["magic"] == MAGIC_V2
    if long.any():
        topic_at = topic_at + long
        topic_to = np.where(long, topic_at + u16(raw, inside), topic_to)
    fits &= topic_to + 2 <= end
    tail = topic_to if fits.all() else np.where(fits, topic_to, at)
    fits &= tail + 2 + u16(raw, tail) == end
    any_flag = int(np.bitwise_or.reduce(flags))
    places = body_at, body_to, topic_at, topic_to, end
    rows = Rows(raw, at, any_flag, head, flags, born6, store6, *places)
    if fits.all():
        return rows, None
    first = int(np.argmin(fits))
    why = f"its parts do not add up to its {sizes[first]} bytes"
    return rows.pick(slice(first)), _damaged(at[first], sizes[first], why)


def _damaged(at: int, size: int, why: str) -> CorruptRecord:
    return CorruptRecord(int(at), why, resume_at=int(at) + int(size))


def u16(raw: Bytes, at: Ints) -> Ints:
    """Return the big-endian 16-bit numbers at the places `at`."""
    return gather(raw, at, 2).view(">u2").astype(np.int64)


# Decode cells --------------------------------------------------------------------------------
# Copies byte ranges of a buffer to Arrow cells: one zero-copy array over all, then `take`.
#
# Between two wanted cells is an unwanted one; `take` of every second cell copies each wanted cell
# once, in C++.


_EQUAL_MAX = 128
_CONTINUES = 0x80
"""UTF-8: the two top bits of a continuation byte."""


def binary(raw: Bytes, starts: Ints, ends: Ints) -> pa.BinaryArray:
    """Return the bytes of each range, copied; ranges are in order and span less than 2 GiB."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    size = int(ends[0] - starts[0])
    if 0 < size <= _EQUAL_MAX and bool((ends - starts == size).all()):
        return _equal(raw, starts, size)
    base = int(starts[0])
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts - base
    bounds[1::2] = ends - base
    data = pa.py_buffer(raw[base : int(ends[-1])])
    cells = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), data])
    return cells.take(_wanted(count))


@lru_cache(maxsize=16)
def _wanted(count: int) -> pa.Int32Array:
    """Return the indexes of the wanted cells, out of `2 * count - 1`."""
    return pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))


def _equal(raw: Bytes, starts: Ints, size: int) -> pa.BinaryArray:
    """Copy cells of one size, such as ids and topic names, several times faster than `take`."""
    bounds = np.arange(0, (len(starts) + 1) * size, size, dtype=np.int32)
    data = gather(raw, starts, size)
    return pa.Array.from_buffers(
        pa.binary(), len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )


def text(raw: Bytes, starts: Ints, ends: Ints) -> pa.StringArray:
    """Return the ranges as text; invalid UTF-8 is replaced by U+FFFD, as Java's readers do."""
    return as_text(binary(raw, starts, ends))


def repeated(text: str, count: int) -> pa.StringArray:
    """Return an array with the same text in `count` cells."""
    return _repeated(text, 1 << (count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=16)
def _repeated(text: str, count: int) -> pa.StringArray:
    data = text.encode()
    bounds = np.arange(count + 1, dtype=np.int32) * len(data)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def as_text(cells: pa.BinaryArray) -> pa.StringArray:
    """Convert binary cells (without nulls or an offset) to text."""
    offsets, data = parts(cells)
    if not is_text(data, offsets):
        cells = pa.array([mended(cell) for cell in cells.to_pylist()], pa.binary())
    return sound(cells)


def sound(cells: pa.BinaryArray) -> pa.StringArray:
    """Convert binary cells that are known to be UTF-8 to text."""
    return pa.Array.from_buffers(pa.string(), len(cells), cells.buffers())


def mended(cell: bytes) -> bytes:
    """Return `cell` with invalid UTF-8 replaced."""
    return cell.decode("utf-8", "replace").encode()


def parts(cells: pa.BinaryArray) -> tuple[NDArray[np.int32], Bytes]:
    """Return the offsets (one more than cells) and the bytes of cells made by `take`."""
    _, bounds, data = cells.buffers()
    if not len(cells):
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    offsets = np.frombuffer(bounds, np.int32, len(cells) + 1)
    size = int(offsets[-1])
    return offsets, np.frombuffer(data, np.uint8, size) if size else np.empty(0, np.uint8)


def is_text(data: Bytes, offsets: NDArray[np.integer[Any]]) -> bool:
    """Return whether every cell is UTF-8: all bytes are, and no cell begins within a character."""
    if not data.size or data.max() < _CONTINUES:
        return True
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError:
        return False
    firsts = data[offsets[:-1][offsets[1:] > offsets[:-1]]]
    return not bool(((firsts & 0xC0) == _CONTINUES).any())


# Decode hosts --------------------------------------------------------------------------------
# Formats hosts as `ip:port`, and message ids that contain a host and a log offset.
#
# Few hosts write many messages, so each distinct host is formatted once per batch.


_HEX = np.frombuffer("".join(f"{n:02X}" for n in range(256)).encode(), np.uint16)
"""The two hex digits of each byte, in memory order."""
_OFFSET_SIZE = 8
_Make = Callable[[Bytes, Ints, Ints, int], pa.StringArray]
"""Makes texts from the buffer, the records' places, the hosts' places, and the size of a host."""


def born_hosts(rows: Rows) -> pa.StringArray:
    if rows.born6 is None:
        return _v4(np.ascontiguousarray(rows.head["bornHost"]).view(np.uint64))
    return _by_family(rows, rows.born_host_at, rows.born6, _hosts)


def store_hosts(rows: Rows) -> pa.StringArray:
    if rows.store6 is None:
        return _v4(np.ascontiguousarray(rows.head["storeHost"]).view(np.uint64))
    return _by_family(rows, rows.store_host_at, rows.store6, _hosts)


def offset_ids(rows: Rows) -> pa.StringArray:
    """Return `model.message_id.offset_id` of each row."""
    return _by_family(rows, rows.store_host_at, rows.store6, _ids)


def _by_family(rows: Rows, host_at: Ints, v6: Flags | None, make: _Make) -> pa.StringArray:
    """Format IPv4 and IPv6 hosts separately, then restore the order of the rows."""
    if v6 is None or not v6.any():
        return make(rows.raw, rows.at, host_at, V4_SIZE)
    four = make(rows.raw, rows.at[~v6], host_at[~v6], V4_SIZE)
    six = make(rows.raw, rows.at[v6], host_at[v6], V6_SIZE)
    place = np.empty(len(rows), np.int64)
    place[~v6] = np.arange(len(four))
    place[v6] = len(four) + np.arange(len(six))
    return pa.concat_arrays([four, six]).take(pa.array(place))


def _hosts(raw: Bytes, at: Ints, host_at: Ints, size: int) -> pa.StringArray:
    packed = gather(raw, host_at, size)
    if size == V4_SIZE:
        return _v4(packed.view(np.uint64))
    texts = [shown(each) for each in packed.tolist()]
    return pa.array(texts, pa.string())


def _v4(packed: NDArray[np.uint64]) -> pa.StringArray:
    """Format hosts given as 8-byte words; all hosts being equal is the common case."""
    if packed.size and (packed == packed[0]).all():
        return repeated(shown(packed[:1].tobytes()), len(packed))
    coded = pa.array(packed).dictionary_encode()
    texts = [_shown_word(word) for word in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


@lru_cache(maxsize=4096)
def shown(packed: bytes) -> str:
    """Format 8 or 20 bytes as `ip:port`, an IPv6 address in brackets."""
    return format_addr(*unpack(packed))


@lru_cache(maxsize=4096)
def _shown_word(word: int) -> str:
    return shown(word.to_bytes(V4_SIZE, sys.byteorder))


def _ids(raw: Bytes, at: Ints, host_at: Ints, size: int) -> pa.StringArray:
    count, width = len(at), size + _OFFSET_SIZE
    packed = np.empty((count, width), np.uint8)
    packed[:, :size] = gather(raw, host_at, size).view(np.uint8).reshape(count, size)
    packed[:, size:] = gather(raw, at + OFFSET_AT, 8).view(np.uint8).reshape(count, _OFFSET_SIZE)
    digits = pa.py_buffer(_HEX[packed])
    bounds = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * (2 * width))
    return pa.Array.from_buffers(pa.string(), count, [None, bounds, digits])
