"""Decodes the properties of many records at once: as a map, as text, or single values.

The properties of all rows are copied into one buffer, each row with a mark byte in front. Every
pair therefore begins after a mark or a 0x02, and ends before the next one, with or without a 0x02
at the row's end. The rules are those of `model.properties.decode`: pairs without a name or a value
are skipped, and the last pair of a name wins.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.spark import decode_heads as cells
from epochmq.spark.decode_heads import Bytes, Ints, Rows, gather

_NAME_END = 1
_PAIR_END = 2
_MARK = 3
_WORD = 8
Words = NDArray[np.uint64]
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
"""Masks for the first n bytes of a little-endian word."""
_NATIVE_MAX = 12
"""Up to so many pairs in a row, each is compared with all others; above, names are sorted."""


@dataclass
class Pairs:
    """The pairs of all rows, in order; places are in `data`, which has 8 extra bytes at its end."""

    data: Bytes
    name_at: Ints
    name_to: Ints
    value_to: Ints
    row: Ints
    count: int
    """The number of rows, including rows without pairs."""

    @property
    def value_at(self) -> Ints:
        return self.name_to + 1

    @cached_property
    def sizes(self) -> Ints:
        """The size of each name in bytes."""
        return self.name_to - self.name_at

    @cached_property
    def words(self) -> Words:
        """The first 8 bytes of each name, filled up with 0."""
        front = gather(self.data, self.name_at, _WORD).view("<u8").astype(np.uint64)
        return front & _MASKS[np.minimum(self.sizes, _WORD)]

    @cached_property
    def width(self) -> int:
        """The number of pairs per row if all rows have the same names in the same order, else 0.

        Messages of one producer usually do; the places of one row's names then apply to all rows.
        """
        width, rest = divmod(len(self.row), self.count)
        if rest or not width or not _same(self.row[::width], self.row[width - 1 :: width]):
            return 0
        words, sizes = self.words.reshape(-1, width), self.sizes.reshape(-1, width)
        if not (words == words[0]).all() or not (sizes == sizes[0]).all():
            return 0
        places = self.name_at.reshape(-1, width)
        long = np.flatnonzero(sizes[0] > _WORD).tolist()
        return width if all(self._all_alike(places[:, n], int(sizes[0, n])) for n in long) else 0

    def as_map(self) -> pa.MapArray:
        """Return one map per row, in which each name occurs once."""
        return as_map(self)

    def values(self, name: str) -> pa.StringArray:
        """Return the value of one name (at most 8 bytes) in each row, null where there is none."""
        return values(self, name)

    def _all_alike(self, places: Ints, size: int) -> bool:
        found = gather(self.data, places, size).view(np.uint8).reshape(-1, size)
        return bool((found == found[0]).all())

    def names(self) -> list[bytes]:
        """Return the names of a row, when all rows have the same."""
        spans = zip(self.name_at[: self.width], self.name_to[: self.width], strict=True)
        return [self.data[start:end].tobytes() for start, end in spans]


def raw(rows: Rows) -> pa.StringArray:
    """Return the stored text of each row."""
    return cells.text(rows.raw, rows.properties_at, rows.end)


def split(rows: Rows) -> Pairs:
    """Find all pairs of all rows."""
    data, begins = _marked(rows)
    size = len(data) - _WORD
    ends = data[:size] == _PAIR_END
    ends[begins] = True
    marks = np.flatnonzero(ends)
    first = np.flatnonzero(data[marks] == _MARK)
    row = np.repeat(np.arange(len(rows)), np.diff(first, append=len(marks)))
    start, stop = marks + 1, np.append(marks[1:], size)
    some = stop > start
    if not some.all():
        start, stop, row = start[some], stop[some], row[some]
    return _named(data, start, stop, row, len(rows))


def _marked(rows: Rows) -> tuple[Bytes, NDArray[np.int32]]:
    """Return all properties with a mark in front of each row, and the places of the marks."""
    # The byte before the text is the second one of its length; the mark replaces it.
    taken = cells.binary(rows.raw, rows.properties_at - 1, rows.end)
    offsets, found = cells.parts(taken)
    data = np.zeros(len(found) + _WORD, np.uint8)
    data[: len(found)] = found
    data[offsets[:-1]] = _MARK
    if cells.is_text(data[: len(found)], offsets):
        return data, offsets[:-1]
    fixed = pa.array([b"\x03" + cells.mended(cell[1:]) for cell in taken.to_pylist()], pa.binary())
    offsets, found = cells.parts(fixed)
    return np.concatenate((found, np.zeros(_WORD, np.uint8))), offsets[:-1]


def _named(data: Bytes, start: Ints, stop: Ints, row: Ints, count: int) -> Pairs:
    """Cut each piece at its first 0x01; drop pieces without one, or with an empty side."""
    equals = np.flatnonzero(data[: len(data) - _WORD] == _NAME_END)
    if len(equals) == len(start) and bool(((equals > start) & (equals < stop - 1)).all()):
        return Pairs(data, start, equals, stop, row, count)
    place = np.append(equals, len(data))[np.searchsorted(equals, start)]
    good = (place > start) & (place < stop - 1)
    return Pairs(data, start[good], place[good], stop[good], row[good], count)


def _same(these: Ints, those: Ints) -> bool:
    """Return whether the first and last pairs, at equal distances, belong to whole rows."""
    return bool((these == those).all()) and bool((these[1:] != these[:-1]).all())


def as_map(pairs: Pairs) -> pa.MapArray:
    """Return one map per row, in which each name occurs once."""
    if pairs.width and len(set(pairs.names())) == pairs.width:
        return _regular_map(pairs)
    pairs = _last_of_each(pairs)
    bounds = np.zeros(pairs.count + 1, np.int32)
    np.cumsum(np.bincount(pairs.row, minlength=pairs.count), out=bounds[1:])
    names = _pieces(pairs.data, pairs.name_at, pairs.name_to)
    return pa.MapArray.from_arrays(pa.array(bounds), names, _values(pairs))


def _regular_map(pairs: Pairs) -> pa.MapArray:
    """Build the map by repeating the first row's names."""
    width, count = pairs.width, pairs.count
    bounds = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    text = b"".join(pairs.names())
    ends = np.cumsum(pairs.sizes[:width])
    name_bounds = np.zeros(count * width + 1, np.int32)
    name_bounds[1:].reshape(count, width)[:] = (
        ends + np.arange(0, count * len(text), len(text))[:, None]
    )
    names = pa.Array.from_buffers(
        pa.string(),
        count * width,
        [None, pa.py_buffer(name_bounds), pa.py_buffer(text * count)],
    )
    return pa.MapArray.from_arrays(pa.array(bounds), names, _values(pairs))


def _values(pairs: Pairs) -> pa.StringArray:
    return _pieces(pairs.data, pairs.value_at, pairs.value_to)


def _pieces(data: Bytes, starts: Ints, ends: Ints) -> pa.StringArray:
    """Return ranges that are known to be UTF-8 as text."""
    return cells.sound(cells.binary(data, starts, ends))


def _last_of_each(pairs: Pairs) -> Pairs:
    """Drop pairs whose name occurs again in the same row (Spark would show both)."""
    if not _may_repeat(pairs):
        return pairs
    keep = np.ones(len(pairs.row), bool)
    seen: set[tuple[int, bytes]] = set()
    for at in range(len(keep) - 1, -1, -1):
        name = (int(pairs.row[at]), pairs.data[pairs.name_at[at] : pairs.name_to[at]].tobytes())
        keep[at] = name not in seen
        seen.add(name)
    return Pairs(
        pairs.data,
        pairs.name_at[keep],
        pairs.name_to[keep],
        pairs.value_to[keep],
        pairs.row[keep],
        pairs.count,
    )


def _may_repeat(pairs: Pairs) -> bool:
    """Return whether two names of a row may be equal: same length and same first 8 bytes."""
    if len(pairs.row) < 2:
        return False
    words, row = pairs.words, pairs.row
    size = pairs.sizes
    most = int(np.bincount(row).max())
    if most > _NATIVE_MAX:
        order = np.lexsort((words, size, row))
        words, size, row, most = words[order], size[order], row[order], 2
    for apart in range(1, most):
        same = words[apart:] == words[:-apart]
        same &= row[apart:] == row[:-apart]
        if same.any() and bool((same & (size[apart:] == size[:-apart])).any()):
            return True
    return False


def values(pairs: Pairs, name: str) -> pa.StringArray:
    """Return the value of one name (at most 8 bytes) in each row, null where there is none."""
    if pairs.width:
        return _regular_values(pairs, name.encode())
    word = int.from_bytes(name.encode(), "little")
    hits = np.flatnonzero((pairs.words == word) & (pairs.sizes == len(name)))
    if not len(hits):
        return pa.nulls(pairs.count, pa.string())
    row = pairs.row[hits]
    last = np.append(row[1:] != row[:-1], True)
    hits, row = hits[last], row[last]
    found = _pieces(pairs.data, pairs.value_at[hits], pairs.value_to[hits])
    if len(hits) == pairs.count:
        return found
    place = np.full(pairs.count, -1, np.int64)
    place[row] = np.arange(len(row))
    return found.take(pa.array(place, mask=place < 0))


def _regular_values(pairs: Pairs, name: bytes) -> pa.StringArray:
    names = pairs.names()
    if name not in names:
        return pa.nulls(pairs.count, pa.string())
    at = slice(len(names) - 1 - names[::-1].index(name), None, pairs.width)
    return _pieces(pairs.data, pairs.name_to[at] + 1, pairs.value_to[at])
