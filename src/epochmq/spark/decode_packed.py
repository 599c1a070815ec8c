"""The properties of many rows by one call of the native code, where there is one.

It gives what `decode_properties.split` and what follows it give, and gives up where a text is no
sound UTF-8 or a row has very many pairs or long names: that one takes the batch then
(docs/adr/0034, 0038).
"""

import ctypes
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from epochmq.model import property_names as known
from epochmq.spark.decode_chase import address
from epochmq.spark.decode_heads import Rows
from epochmq.store.native.library import Library

_FOUND = (known.TAGS, known.KEYS, known.UNIQ_KEY)
"""Names whose values the native code gives as columns, in its order."""
_FOUND_AT = (5, 8, 11)
"""Where their buffers begin among all."""
SMALLEST_PAIR = 3
BLOCK = 16
"""So many bytes the native code may write behind a text."""
_LINE = 64
"""Arrow likes its buffers to begin at such places."""
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64


class PairsArgs(ctypes.Structure):
    """`pairs` of pairs.c."""

    _fields_ = [
        ("bytes", _POINTER), ("size", _I64), ("starts", _POINTER), ("ends", _POINTER),
        ("rows", _I64),
        *((name, _POINTER) for name in (
            "bounds", "name_bounds", "value_bounds", "names", "values")),
        ("pairs_max", _I64), ("count", _I64),
        *((f"{name}_{field}", _I64 if field == "nulls" else _POINTER)
          for name in _FOUND for field in ("bounds", "data", "valid", "nulls")),
        ("all_have_ids", _I64),
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


def packed(native: Library, rows: Rows) -> Packed | None:
    """The pairs of all rows, None where one of them is not for the native code."""
    starts, ends = rows.properties_at, rows.end
    count, size = len(starts), int((ends - starts).sum())
    most = size // SMALLEST_PAIR + 1
    rows_bounds, pairs_bounds, text = 4 * count + 4, 4 * most + 4, size + BLOCK
    sizes = [rows_bounds, pairs_bounds, pairs_bounds, text, text]
    sizes += [rows_bounds, text, count // 8 + 1] * len(_FOUND)
    places = [0, *accumulate(-(-each // _LINE) * _LINE for each in sizes)]
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    memory = pa.allocate_buffer(places[-1])
    begins = [memory.address + place for place in places]
    given = (address(rows.raw), len(rows.raw), address(starts), address(ends), count)
    args = PairsArgs(
        *given,
        *begins[:5],
        most,
        0,
        *(field for at in _FOUND_AT for field in (*begins[at : at + 3], 0)),
    )
    if not native.pairs(ctypes.addressof(args)):
        return None
    buffers = [memory.slice(*span) for span in zip(places, sizes, strict=False)]
    nulls = (args.TAGS_nulls, args.KEYS_nulls, args.UNIQ_KEY_nulls)
    found = {
        name: pa.Array.from_buffers(
            pa.string(), count, [buffers[at + 2] if none else None, *buffers[at : at + 2]], none
        )
        for name, at, none in zip(_FOUND, _FOUND_AT, nulls, strict=True)
    }
    bounds, name_bounds, value_bounds, names, texts = buffers[:5]
    return Packed(count, args.count, bounds, name_bounds, value_bounds, names, texts, found)
