"""The properties of many rows by one call of the compiled twin, where there is one.

It gives what `decode_properties.split` and what follows it give, and gives up where a text is no
sound UTF-8 or has a name twice: that one takes the batch then (docs/adr/0034, 0038).
"""

import ctypes
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.model import property_names as known
from epochmq.spark import decode_cells as cells
from epochmq.spark.decode_chase import Ints
from epochmq.spark.decode_heads import Rows
from epochmq.store.twin.library import Library

_FOUND = (known.TAGS, known.KEYS, known.UNIQ_KEY)
"""Names whose pairs the twin points out, in its order."""
_SMALLEST_PAIR = 3
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64
Numbers = NDArray[np.int32]


class PairsArgs(ctypes.Structure):
    """`pairs` of pairs.c."""

    _fields_ = [
        *((name, _POINTER) for name in ("bytes", "starts", "ends")), ("rows", _I64),
        *((name, _POINTER) for name in (
            "bounds", "name_bounds", "value_bounds", "names", "values")),
        ("pairs_max", _I64), *((name, _POINTER) for name in ("tags", "keys", "uniq_key")),
        ("count", _I64),
    ]  # fmt: skip


@dataclass(slots=True)
class Packed:
    """All pairs of all rows as two texts with their bounds, and which is what in each row."""

    rows: int
    count: int
    bounds: pa.Buffer
    name_bounds: pa.Buffer
    value_bounds: pa.Buffer
    names: pa.Buffer
    texts: pa.Buffer
    found: Numbers

    def as_map(self) -> pa.MapArray:
        """One map a row."""
        bounds = pa.Array.from_buffers(pa.int32(), self.rows + 1, [None, self.bounds])
        names = [None, self.name_bounds, self.names]
        values = [None, self.value_bounds, self.texts]
        return pa.MapArray.from_arrays(
            bounds,
            pa.Array.from_buffers(pa.string(), self.count, names),
            pa.Array.from_buffers(pa.string(), self.count, values),
        )

    def values(self, name: str) -> pa.StringArray:
        """The value of one of the names that are pointed out, null where a row has none."""
        pair = self.found[_FOUND.index(name)]
        have = pair >= 0
        if have.all():
            return self._values_of(pair)
        if not have.any():
            return pa.nulls(self.rows, pa.string())
        place = np.cumsum(have) - 1
        return self._values_of(pair[have]).take(pa.array(place, mask=~have))

    def _values_of(self, pair: Numbers) -> pa.StringArray:
        bounds = np.frombuffer(self.value_bounds, np.int32)
        data = np.frombuffer(self.texts, np.uint8)
        return cells.sound(cells.binary(data, _wide(bounds[pair]), _wide(bounds[pair + 1])))


def _wide(numbers: Numbers) -> Ints:
    return numbers.astype(np.int64)


def packed(twin: Library, rows: Rows) -> Packed | None:
    """The pairs of all rows, None where one of them is not for the twin."""
    starts, ends = np.ascontiguousarray(rows.properties_at), np.ascontiguousarray(rows.end)
    count, size = len(rows), int((ends - starts).sum())
    most = size // _SMALLEST_PAIR + 1
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    sizes = (4 * count + 4, 4 * most + 4, 4 * most + 4, size, size)
    buffers = [pa.allocate_buffer(each) for each in sizes]
    found = np.empty((len(_FOUND), count), np.int32)
    args = PairsArgs(rows.raw.ctypes.data, starts.ctypes.data, ends.ctypes.data, count)
    args.bounds, args.name_bounds, args.value_bounds, args.names, args.values = (
        buffer.address for buffer in buffers
    )
    args.pairs_max = most
    args.tags, args.keys, args.uniq_key = (each.ctypes.data for each in found)
    if not twin.pairs(ctypes.addressof(args)):
        return None
    bounds, name_bounds, value_bounds, names, texts = buffers
    return Packed(count, args.count, bounds, name_bounds, value_bounds, names, texts, found)
