"""Byte ranges of one buffer as Arrow cells: one zero-copy array over them, and `take`.

Between two cells wanted lies one that is not; `take` of every other one copies each wanted cell
once, in C++.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.spark.decode_chase import Bytes, Ints, gather

_EQUAL_MAX = 128
_CONTINUES = 0x80
"""UTF-8: the two top bits of a byte within a character."""


def binary(raw: Bytes, starts: Ints, ends: Ints) -> pa.BinaryArray:
    """The bytes of each range, copied; ranges lie in order and less than 2 GiB apart."""
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
    """The numbers of the cells that are wanted, out of `2 * count - 1`."""
    return pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))


def _equal(raw: Bytes, starts: Ints, size: int) -> pa.BinaryArray:
    """Cells of one size, as ids and a topic's name have: a plain gather, several times faster."""
    bounds = np.arange(0, (len(starts) + 1) * size, size, dtype=np.int32)
    data = gather(raw, starts, size)
    return pa.Array.from_buffers(
        pa.binary(), len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )


def text(raw: Bytes, starts: Ints, ends: Ints) -> pa.StringArray:
    """The same as text, broken UTF-8 replaced by U+FFFD as Java's readers do it."""
    return as_text(binary(raw, starts, ends))


def repeated(text: str, count: int) -> pa.StringArray:
    """The same text in each of `count` cells."""
    return _repeated(text, 1 << (count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=16)
def _repeated(text: str, count: int) -> pa.StringArray:
    data = text.encode()
    bounds = np.arange(count + 1, dtype=np.int32) * len(data)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def as_text(cells: pa.BinaryArray) -> pa.StringArray:
    """Binary cells (without nulls or an offset) as text."""
    offsets, data = parts(cells)
    if not is_text(data, offsets):
        cells = pa.array([mended(cell) for cell in cells.to_pylist()], pa.binary())
    return sound(cells)


def sound(cells: pa.BinaryArray) -> pa.StringArray:
    """Binary cells that are known to be UTF-8 as text."""
    return pa.Array.from_buffers(pa.string(), len(cells), cells.buffers())


def mended(cell: bytes) -> bytes:
    """`cell` with broken UTF-8 replaced."""
    return cell.decode("utf-8", "replace").encode()


def parts(cells: pa.BinaryArray) -> tuple[NDArray[np.int32], Bytes]:
    """Offsets (one more than cells) and bytes of cells that `take` gave."""
    _, bounds, data = cells.buffers()
    if not len(cells):
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    offsets = np.frombuffer(bounds, np.int32, len(cells) + 1)
    size = int(offsets[-1])
    return offsets, np.frombuffer(data, np.uint8, size) if size else np.empty(0, np.uint8)


def is_text(data: Bytes, offsets: NDArray[np.integer[Any]]) -> bool:
    """Whether every cell is UTF-8: all of it is, and no cell begins within a character."""
    if not data.size or data.max() < _CONTINUES:
        return True
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError:
        return False
    firsts = data[offsets[:-1][offsets[1:] > offsets[:-1]]]
    return not bool(((firsts & 0xC0) == _CONTINUES).any())
