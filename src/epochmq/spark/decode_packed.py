"""The properties of many rows by one call of the compiled twin, where there is one.

It gives what `decode_properties.split` and what follows it give, and gives up where a text is no
sound UTF-8 or a row has very many pairs: that one takes the batch then (docs/adr/0034, 0038).
"""

import ctypes
from dataclasses import dataclass

import pyarrow as pa

from epochmq.model import property_names as known
from epochmq.spark.decode_chase import address
from epochmq.spark.decode_heads import Rows
from epochmq.store.twin.library import Library

_FOUND = (known.TAGS, known.KEYS, known.UNIQ_KEY)
"""Names whose values the twin gives as columns, in its order."""
_SMALLEST_PAIR = 3
_BLOCK = 16
"""So many bytes the twin may write behind a text."""
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64


_COLUMN_FIELDS = ("bounds", "data", "valid")


class PairsArgs(ctypes.Structure):
    """`pairs` of pairs.c."""

    _fields_ = [
        ("bytes", _POINTER), ("size", _I64), ("starts", _POINTER), ("ends", _POINTER),
        ("rows", _I64),
        *((name, _POINTER) for name in (
            "bounds", "name_bounds", "value_bounds", "names", "values")),
        ("pairs_max", _I64), ("count", _I64),
        *((f"{name}_{field}", _I64 if field == "nulls" else _POINTER)
          for name in _FOUND for field in (*_COLUMN_FIELDS, "nulls")),
    ]  # fmt: skip


@dataclass(slots=True)
class Packed:
    """All pairs of all rows as two texts with their bounds, and columns of single values."""

    rows: int
    count: int
    bounds: pa.Buffer
    name_bounds: pa.Buffer
    value_bounds: pa.Buffer
    names: pa.Buffer
    texts: pa.Buffer
    found: dict[str, pa.StringArray]

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
        """The value of one of the names that have columns, null where a row has none."""
        return self.found[name]


def packed(twin: Library, rows: Rows) -> Packed | None:
    """The pairs of all rows, None where one of them is not for the twin."""
    starts, ends = rows.properties_at, rows.end
    count, size = len(starts), int((ends - starts).sum())
    most = size // _SMALLEST_PAIR + 1
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    sizes = (4 * count + 4, 4 * most + 4, 4 * most + 4, size + _BLOCK, size + _BLOCK)
    buffers = [pa.allocate_buffer(each) for each in sizes]
    columns = {
        name: [pa.allocate_buffer(each) for each in (4 * count + 4, size + _BLOCK, count // 8 + 1)]
        for name in _FOUND
    }
    places = (address(rows.raw), len(rows.raw), address(starts), address(ends))
    args = PairsArgs(*places, count, *(buffer.address for buffer in buffers), most, 0)
    for name, column in columns.items():
        for field, buffer in zip(_COLUMN_FIELDS, column, strict=True):
            setattr(args, f"{name}_{field}", buffer.address)
    if not twin.pairs(ctypes.addressof(args)):
        return None
    found = {}
    for name, (text_bounds, data, valid) in columns.items():
        nulls = getattr(args, f"{name}_nulls")
        parts = [valid if nulls else None, text_bounds, data]
        found[name] = pa.Array.from_buffers(pa.string(), count, parts, nulls)
    bounds, name_bounds, value_bounds, names, texts = buffers
    return Packed(count, args.count, bounds, name_bounds, value_bounds, names, texts, found)
