"""The decoder with native code: converts ordinary records to whole Arrow batches in one pass."""

import ctypes
import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.model import property_names as known
from epochmq.native import library as native
from epochmq.native.library import Library
from epochmq.spark import columns as cols
from epochmq.spark.decode_heads import Bytes, address

# Decode message ------------------------------------------------------------------------------
# Builds Arrow's IPC message of a record batch around buffers that are already in memory.
#
# Creating an array in Python takes 1.5 us, and a batch has twenty arrays; reading one message
# creates all of them at once, without a copy. The head of a message (Arrow's format: Message.fbs)
# is the same for all batches of a schema, except for its numbers. The head is taken from a message
# that Arrow wrote, and the numbers are replaced.


Ints = NDArray[np.int64]

LINE = 64
"""Arrow recommends this alignment of buffers, in bytes."""
_PREFIX = 8
"""A marker and the size of the head that follows."""
_HEADER, _BODY_SIZE = 2, 3
"""Field numbers of the FlatBuffers table Message."""
_LENGTH, _NODES, _BUFFERS = 0, 1, 2
"""Field numbers of the FlatBuffers table RecordBatch."""


class MessageHead:
    """The message head for batches of one schema; it has two numbers for each array and buffer."""

    def __init__(self, schema: pa.Schema) -> None:
        # FlatBuffers omits a number that is 0, so the head is taken from a batch with one row.
        one = pa.RecordBatch.from_arrays(
            [pa.nulls(1, kind) for kind in schema.types], schema=schema
        )
        whole = one.serialize().to_pybytes()
        (size,) = struct.unpack_from("<i", whole, _PREFIX // 2)
        self._schema = schema
        self._bytes = np.frombuffer(whole[: _PREFIX + size], np.uint8)
        tables = _Tables(self._bytes[_PREFIX:].tobytes())
        message = tables.follow(0)
        batch = tables.follow(tables.field(message, _HEADER))
        self._numbers = tables.field(message, _BODY_SIZE), tables.field(batch, _LENGTH)
        self._nodes = tables.vector(batch, _NODES)
        self._buffers = tables.vector(batch, _BUFFERS)
        self.buffers = self._buffers[1]
        """The number of buffers; the buffers of nested arrays follow those of their parents."""
        self.room = -(-len(self._bytes) // LINE) * LINE
        """Where the body begins in the memory of a batch."""

    def read(self, memory: pa.Buffer, rows: int, nodes: Ints, spans: Ints) -> pa.RecordBatch:
        """Return the batch whose body begins at `room` in `memory`; the batch keeps `memory` alive.

        `nodes` has the elements and nulls of each array; `spans` has where each buffer begins in
        the body, and its size in bytes.
        """
        begin = self.room - len(self._bytes)
        head = np.frombuffer(memory, np.uint8, len(self._bytes), begin)
        head[:] = self._bytes
        for place, number in zip(self._numbers, (memory.size - self.room, rows), strict=True):
            _ints(memory, begin, place, 1)[0] = number
        _ints(memory, begin, self._nodes[0], nodes.size)[:] = nodes.ravel()
        _ints(memory, begin, self._buffers[0], spans.size)[:] = spans.ravel()
        return pa.ipc.read_record_batch(memory.slice(begin), self._schema)


def _ints(memory: pa.Buffer, begin: int, place: int, count: int) -> Ints:
    return np.frombuffer(memory, np.int64, count, begin + _PREFIX + place)


class _Tables:
    """A minimal FlatBuffers reader that finds the places of numbers."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def _at(self, kind: str, place: int) -> int:
        (number,) = struct.unpack_from(kind, self._data, place)
        return int(number)

    def follow(self, place: int) -> int:
        """Return where the table or vector begins to which this place refers."""
        return place + self._at("<I", place)

    def field(self, table: int, number: int) -> int:
        """Return the place of a field of a table."""
        return table + self._at("<H", table - self._at("<i", table) + 4 + 2 * number)

    def vector(self, table: int, number: int) -> tuple[int, int]:
        """Return where the elements of a field begin, and how many there are."""
        begin = self.follow(self.field(table, number))
        return begin + 4, self._at("<I", begin)


# Decode whole --------------------------------------------------------------------------------
# Whole batches by native code: one call, one block of memory, one Arrow message.  numpy first finds
# records and then builds a batch column by column. The native code decodes ordinary records (sound,
# all texts UTF-8, valid dates, names and properties of usual length) in one pass, while a record is
# in the cache, with equal results (docs/adr/0034, 0038, 0057).  The place of each buffer is fixed,
# for the most rows and bytes that a batch may have; memory that is not used is not touched. The
# final size of each buffer is a linear function of numbers that the native code returns, so one
# matrix product gives all numbers of Arrow's message.


INT32 = ("queueId", "flag", "sysFlag", "bodyCRC", "reconsumeTimes")
INT64 = ("queueOffset", "commitLogOffset", "preparedTransactionOffset")
TIMES = ("bornTimestamp", "storeTimestamp")
HOSTS = ("bornHost", "storeHost")
HOST_ROOM = 52
"""Bytes of the longest host: an IPv6 address of eight groups in brackets, and a port of ten
digits.
"""
ID_MAX = 56
"""Bytes of a message id that the native code makes from an IPv6 host and a log offset."""
BLOCK = 16
"""The native code may write up to so many bytes after the end of a text."""
_HOST_BLOCK = 32
"""The native code may write up to so many bytes after the end of a host."""
BODIES_MAX = 2 * 1024 * 1024
"""The most bytes of bodies in one batch, unless its first record is larger."""
TEXTS_MAX = 1024 * 1024
"""The most bytes of properties in one batch."""
ROWS_MAX = 8192
_PAIRS_MAX = 64
"""The most properties of one record."""
_TOPIC_MAX = 255
_FOUND_BY_COLUMN = {"tags": known.TAGS, "keys": known.KEYS, "msgId": known.UNIQ_KEY}
"""Columns that hold the value of a property."""
_COUNTS = (
    "one",
    "rows",
    "pairs",
    "bits",
    "body",
    *HOSTS,
    "topic",
    "names",
    "values",
    *_FOUND_BY_COLUMN.values(),
    "raw",
    *(f"{name}_nulls" for name in _FOUND_BY_COLUMN.values()),
)
"""The names of `sizes` in arrow_rows.c."""
_NO = ""
"""A buffer that is left out: the validity bitmap of a column without nulls."""
ALL_OFFSETS = (-(2**63), 2**63)
"""A range that contains all queue offsets."""
_POINTER = ctypes.c_void_p
_I64 = ctypes.c_int64


class WholeArgs(ctypes.Structure):
    """`whole` of arrow_rows.c with `columns` and `pairs` of arrow_rows.h: fields of eight bytes."""

    _fields_ = [
        ("bytes", _POINTER),
        *((name, _I64) for name in (
            "at", "limit", "size", "rows_max", "skip_flags", "stop_flags", "first", "last",
            "body_max", "text_max", "end", "flags")),
        ("rawBounds", _POINTER), ("raw", _POINTER),
        *((f"count_{name}", _I64) for name in _COUNTS),
        ("columns_rows", _I64),
        *((f"columns_{name}", _POINTER) for name in (*INT32, *INT64, *TIMES)),
        *((f"columns_{name}{part}", _POINTER)
          for name in ("body", *HOSTS, "topic", "brokerName") for part in ("Bounds", "")),
        ("columns_name", _POINTER), ("columns_name_size", _I64),
        ("pairs_limit", _POINTER), ("pairs_rows", _I64),
        *((f"pairs_{name}", _POINTER) for name in (
            "bounds", "name_bounds", "value_bounds", "names", "values")),
        ("pairs_pairs_max", _I64), ("pairs_count", _I64),
        *((f"pairs_{name}_{field}", _I64 if field == "nulls" else _POINTER)
          for name in _FOUND_BY_COLUMN.values() for field in ("bounds", "data", "valid", "nulls")),
        ("pairs_makes_ids", _I64),
    ]  # fmt: skip


_FIELDS = {field[0]: at for at, field in enumerate(WholeArgs._fields_)}
_COUNTS_AT = _FIELDS["count_one"]
_GIVEN = [_FIELDS[name] for name in (
    "bytes", "at", "limit", "size", "skip_flags", "stop_flags", "first", "last",
    "body_max")]  # fmt: skip
_END, _FLAGS = _FIELDS["end"], _FIELDS["flags"]


@dataclass(frozen=True, slots=True)
class _ArgumentBuffer:
    """One buffer: its field in the arguments, its room in bytes, and its size.

    The size is `times` the number named `count`, plus `more` bytes.
    """

    field: str
    room: int
    count: str
    times: int = 1
    more: int = 0


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A batch, where the next record begins, and the sys flags of all rows combined by OR."""

    batch: pa.RecordBatch
    end: int
    flags: int


class Whole:
    """Makes batches of fixed columns with at most `rows` rows, from one broker. Thread-safe."""

    def __init__(self, names: tuple[str, ...], raw: bool, rows: int, broker_name: str) -> None:
        self._rows = rows
        self._broker = np.frombuffer((broker := broker_name.encode()) + b"\0", np.uint8)
        self._head = MessageHead(cols.schema(names, "raw" if raw else "map"))
        kinds = _buffers(rows, len(broker))
        order = [each for name in names for each in _buffers_of(name, raw)]
        # The body buffer is last, because its room may be larger.
        wanted = sorted(dict.fromkeys(each for each in order if each != _NO), key="body".__eq__)
        begins, size = {}, 0
        for each in wanted:
            begins[each] = size
            size += -(-kinds[each].room // LINE) * LINE
        self._size = self._head.room + size
        self._args = np.zeros(len(_FIELDS), np.int64)
        fixed = {
            "rows_max": rows,
            "text_max": TEXTS_MAX,
            "pairs_pairs_max": _PAIRS_MAX * rows,
            "columns_name_size": len(broker),
            "columns_name": address(self._broker),
            "pairs_makes_ids": "msgId" in names,
        }
        for name, value in fixed.items():
            self._args[_FIELDS[name]] = value
        self._places = np.array([_FIELDS[kinds[each].field] for each in wanted], np.int64)
        self._offsets = np.array([begins[each] for each in wanted], np.int64) + self._head.room
        nodes = [node for name in names for node in _nodes_of(name, raw)]
        self._nodes = 2 * len(nodes)
        numbers = [number for node in nodes for number in (_linear(node[0]), _linear(node[1]))]
        for each in order:
            kind = kinds.get(each)
            numbers.append(_linear(_NO, 0, begins.get(each, 0)))
            numbers.append(_linear(kind.count, kind.times, kind.more) if kind else _linear(_NO))
        self._numbers = np.array(numbers, np.int64)

    def decode(
        self,
        native: Library,
        raw: Bytes,
        at: int,
        limit: int,
        *,
        skip_flags: int = 0,
        stop_flags: int = 0,
        offsets: tuple[int, int] = ALL_OFFSETS,
    ) -> DecodedBatch | None:
        """Decode the records that begin in `at..limit`, or the first of them.

        Returns None when few of them precede a record that is not ordinary or has a flag of
        `stop_flags`; numpy then decodes them. Records with a flag of `skip_flags`, or outside the
        queue offsets (from, to), give no rows.
        """
        # Arrow's pool reuses memory of this size; fresh memory from the system costs a fault per
        # page.
        bodies = max(BODIES_MAX, _first_size(raw, at))
        memory = pa.allocate_buffer(self._size + bodies - BODIES_MAX)
        args = self._args.copy()
        args[self._places] = self._offsets + memory.address
        size, (first, behind) = len(raw), offsets
        span = address(raw), at, limit, size
        args[_GIVEN] = *span, skip_flags, stop_flags, first, behind - 1, bodies
        rows = native.whole(address(args))
        end, limit = int(args[_END]), min(limit, size)
        if not rows or (rows < self._rows and end < limit and end - at < (limit - at) // 2):
            return None
        counts = args[_COUNTS_AT : _COUNTS_AT + len(_COUNTS)]
        numbers = self._numbers @ counts
        nodes, spans = numbers[: self._nodes], numbers[self._nodes :]
        batch = self._head.read(memory, rows, nodes, spans)
        return DecodedBatch(batch, end, int(args[_FLAGS]))


def _first_size(raw: Bytes, at: int) -> int:
    """Return the size in bytes of the record at `at`; 0 when it is not whole."""
    size = int.from_bytes(raw[at : at + 4].tobytes(), "big")
    return size if size <= len(raw) - at else 0


def _linear(count: str, times: int = 1, more: int = 0) -> list[int]:
    """Return the factor of each number that the native code returns."""
    row = [times if count == name else 0 for name in _COUNTS]
    row[0] += more
    return row


def _buffers(rows: int, broker: int) -> dict[str, _ArgumentBuffer]:
    """Return all possible buffers, by the names that `_buffers_of` uses."""
    bounds, pairs, text = 4 * rows + 4, 4 * _PAIRS_MAX * rows + 4, TEXTS_MAX + BLOCK
    found: dict[str, _ArgumentBuffer] = {}

    def add(name: str, field: str, room: int, count: str, times: int = 1, more: int = 0) -> None:
        found[name] = _ArgumentBuffer(field, room, count, times, more)

    def add_text(name: str, field: str, room: int, count: str, times: int = 1) -> None:
        add(f"{name}Bounds", f"{field}Bounds", bounds, "rows", 4, 4)
        add(name, field, room, count, times)

    for names, width in ((INT32, 4), (INT64, 8), (TIMES, 8)):
        for name in names:
            add(name, f"columns_{name}", width * rows, "rows", width)
    for host in HOSTS:
        add_text(host, f"columns_{host}", HOST_ROOM * rows + _HOST_BLOCK, host)
    add_text("body", "columns_body", BODIES_MAX, "body")
    add_text("topic", "columns_topic", _TOPIC_MAX * rows + BLOCK, "topic")
    add_text("brokerName", "columns_brokerName", broker * (rows + 1), "rows", broker)
    add_text("raw", "raw", text, "raw")
    add("pairs", "pairs_bounds", bounds, "rows", 4, 4)
    for part in ("name", "value"):
        add(f"{part}Bounds", f"pairs_{part}_bounds", pairs, "pairs", 4, 4)
        add(f"{part}s", f"pairs_{part}s", text, f"{part}s")
    for column, name in _FOUND_BY_COLUMN.items():
        add(f"{column}Bounds", f"pairs_{name}_bounds", bounds, "rows", 4, 4)
        made = ID_MAX * rows if column == "msgId" else 0
        add(column, f"pairs_{name}_data", text + made, name)
        add(f"{column}Valid", f"pairs_{name}_valid", rows // 8 + 1, "bits")
    return found


def _buffers_of(name: str, raw: bool) -> list[str]:
    """Return the names of a column's buffers in the Arrow message."""
    if name in INT32 or name in INT64 or name in TIMES:
        return [_NO, name]
    if name in _FOUND_BY_COLUMN:
        return [f"{name}Valid", f"{name}Bounds", name]
    if name == "properties" and raw:
        return [_NO, "rawBounds", "raw"]
    if name == "properties":
        return [_NO, "pairs", _NO, _NO, "nameBounds", "names", _NO, "valueBounds", "values"]
    return [_NO, f"{name}Bounds", name]


def _nodes_of(name: str, raw: bool) -> list[tuple[str, str]]:
    """Return, for each array of a column, the names of its element count and its null count."""
    if name == "properties" and not raw:
        return [("rows", _NO), *[("pairs", _NO)] * 3]
    return [("rows", f"{_FOUND_BY_COLUMN[name]}_nulls" if name in _FOUND_BY_COLUMN else _NO)]


@lru_cache(maxsize=64)
def whole(names: tuple[str, ...], raw: bool, rows: int, broker_name: str) -> Whole:
    """Return the decoder for these columns; `raw` selects `properties` as text instead of a map."""
    return Whole(names, raw, min(rows, ROWS_MAX), broker_name)


# Decode library ------------------------------------------------------------------------------
# Loads the native code and compares its structure layouts with those in Python.


MIRRORED = {"whole": ctypes.sizeof(WholeArgs)}
"""Structures of the decoder that C declares, too, with their sizes in bytes."""


@lru_cache(maxsize=1)
def library() -> native.Library | None:
    """Return the native code, or None to use numpy alone; raises `OurBug` if layouts differ."""
    found = native.library()
    if found is not None:
        found.check_sizes(MIRRORED)
    return found
