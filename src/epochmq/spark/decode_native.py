"""The decoder with native code: column by column, or all columns in one pass."""

import ctypes
import struct
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.model import property_names as known
from epochmq.model.record import HEAD
from epochmq.spark import columns as cols
from epochmq.spark.columns import ARROW
from epochmq.spark.decode_heads import Bytes, Rows, address
from epochmq.store.native import library as native
from epochmq.store.native.library import Library

# Decode native -------------------------------------------------------------------------------
# The ordinary records of a buffer by one call of the native code, where there is one.
#
# It gives what `decode_chase.follow` and `decode_heads.read` give together, several times faster,
# and stops before whatever is unusual: those two take that (docs/adr/0034, 0038).


RECORDS_MAX = 8192
"""Records that one call takes at most."""
_COLUMN = 8 * RECORDS_MAX
_POINTER = ctypes.c_void_p
_I64 = ctypes.c_int64


class RowsArgs(ctypes.Structure):
    """`rows` of rows.c."""

    _fields_ = [
        ("bytes", _POINTER), *((name, _I64) for name in ("at", "limit", "size")),
        *((name, _POINTER) for name in ("begins", "bodies", "topics", "ends")),
        *((name, _I64) for name in ("count_max", "end", "flags")),
    ]  # fmt: skip


def ordinary(native: Library, raw: Bytes, begin: int, limit: int) -> Rows | None:
    """The ordinary records that begin in `begin..limit`; None when the first is none."""
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    places = pa.allocate_buffer(4 * _COLUMN)
    columns = (places.address + n * _COLUMN for n in range(4))
    args = RowsArgs(address(raw), begin, limit, len(raw), *columns, RECORDS_MAX)
    count = native.rows(ctypes.addressof(args))
    if not count:
        return None
    found = np.frombuffer(places, np.int64).reshape(4, -1)[:, :count]
    begins, bodies, topics, ends = found
    body_at = begins + HEAD.size
    return Rows(raw, begins, args.flags, None, None, body_at, bodies, bodies + 1, topics, ends)


# Decode made ---------------------------------------------------------------------------------
# Columns of many records by one call of the native code, where there is one.
#
# It gives what `decode_columns` makes with numpy, and makes nothing where a host is IPv6 or a
# time no date: numpy takes the batch then (docs/adr/0034, 0038). What a call costs by itself
# counts here: a megabyte of log has less than a thousand rows.


INT32 = ("queueId", "flag", "sysFlag", "bodyCRC", "reconsumeTimes")
INT64 = ("queueOffset", "commitLogOffset", "preparedTransactionOffset")
TIMES = ("bornTimestamp", "storeTimestamp")
HOSTS = ("bornHost", "storeHost")
_TEXTS = ("body", *HOSTS)
_PLACES = (
    *INT32,
    *INT64,
    *TIMES,
    *(place for name in _TEXTS for place in (name + "Bounds", name)),
)
HOST_TEXT = 26
"""The longest one: 255.255.255.255:4294967295."""
_LINE = 64
"""Arrow likes its buffers to begin at such places; numbers of rows are rounded up to it too."""


class ColumnsArgs(ctypes.Structure):
    """`columns` of columns.c."""

    _fields_ = [
        ("bytes", _POINTER), ("rows", _I64),
        *((name, _POINTER) for name in ("begins", "bodies", "topics", "tails")),
        ("one_topic", _I64), *((name, _POINTER) for name in _PLACES),
        *((name, _POINTER) for name in ("topicBounds", "topic", "brokerNameBounds", "brokerName")),
        ("name", _POINTER), ("name_size", _I64),
    ]  # fmt: skip


class BufferLayout:
    """Where the buffers of some columns lie in one piece of memory; bodies lie by themselves."""

    def __init__(self, names: tuple[str, ...], room: int) -> None:
        self.bodies = "body" in names
        self.spans: dict[str, tuple[int, int]] = {}
        self.size = 0
        for name in names:
            if name in _TEXTS:
                self._add(name + "Bounds", 4 * room + _LINE)
            if name in _PLACES and name != "body":
                self._add(name, room * _width(name) + _LINE)

    def _add(self, place: str, size: int) -> None:
        self.spans[place] = self.size, size
        self.size += size

    def places(self, start: int, body: int | None) -> list[int | None]:
        """The address of each buffer by its place in the arguments."""
        found = [self.spans.get(name) for name in _PLACES]
        places = [None if span is None else start + span[0] for span in found]
        places[_PLACES.index("body")] = body
        return places


def _width(name: str) -> int:
    if name in HOSTS:
        return HOST_TEXT
    return 4 if name in INT32 else 8


@lru_cache(maxsize=64)
def _layout(names: tuple[str, ...], room: int) -> BufferLayout:
    return BufferLayout(names, room)


class MadeColumns:
    """What one call made: `columns` by name, and whether all rows have the first one's topic."""

    __slots__ = ("columns", "one_topic")

    def __init__(self, columns: dict[str, pa.Array], one_topic: bool) -> None:
        self.columns = columns
        self.one_topic = one_topic


def made(native: Library, rows: Rows, names: tuple[str, ...]) -> MadeColumns | None:
    """Those of the columns `names` that it makes; None where one of the rows is not for it."""
    if rows.born6 is not None:
        return None
    count = len(rows.at)
    layout = _layout(names, -(-count // _LINE) * _LINE)
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    memory = pa.allocate_buffer(layout.size)
    bodies = None
    if layout.bodies:
        bodies = pa.allocate_buffer(int((rows.body_to - rows.body_at).sum()))
    places = layout.places(memory.address, None if bodies is None else bodies.address)
    begins = map(address, (rows.at, rows.body_to, rows.topic_at, rows.topic_to))
    args = ColumnsArgs(address(rows.raw), count, *begins, 0, *places)
    if not native.columns(ctypes.addressof(args)):
        return None
    parts = {place: memory.slice(*span) for place, span in layout.spans.items()}
    columns = {}
    for name in names:
        if name == "body":
            buffers = [None, parts["bodyBounds"], bodies]
        elif name in HOSTS:
            buffers = [None, parts[name + "Bounds"], parts[name]]
        elif name in parts:
            buffers = [None, parts[name]]
        else:
            continue
        columns[name] = pa.Array.from_buffers(ARROW[name], count, buffers)
    return MadeColumns(columns, bool(args.one_topic))


# Decode packed -------------------------------------------------------------------------------
# The properties of many rows by one call of the native code, where there is one.
#
# It gives what `decode_properties.split` and what follows it give, and gives up where a text is no
# sound UTF-8 or a row has very many pairs or long names: that one takes the batch then
# (docs/adr/0034, 0038).


_FOUND = (known.TAGS, known.KEYS, known.UNIQ_KEY)
"""Names whose values the native code gives as columns, in its order."""
_FOUND_AT = (5, 8, 11)
"""Where their buffers begin among all."""
SMALLEST_PAIR = 3
BLOCK = 16
"""So many bytes the native code may write behind a text."""
"""Arrow likes its buffers to begin at such places."""


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


# Decode message ------------------------------------------------------------------------------
# Arrow's message of a record batch, made up around buffers that lie behind it already.
#
# What Python makes array by array takes 1.5 us each, and a batch has twenty; reading a message
# makes all of them at once, without a copy. The head of a message (Arrow's format: Message.fbs)
# is the same for all batches of a schema, but for its numbers: it is taken from Arrow itself,
# and they are set.


Ints = NDArray[np.int64]

LINE = 64
"""Arrow likes its buffers to begin at such places."""
_PREFIX = 8
"""A marker and the size of what follows."""
_HEADER, _BODY_SIZE = 2, 3
"""Fields of the table Message."""
_LENGTH, _NODES, _BUFFERS = 0, 1, 2
"""Fields of the table RecordBatch."""


class MessageHead:
    """Of batches of one schema; a pair of numbers each for every array and every buffer."""

    def __init__(self, schema: pa.Schema) -> None:
        # A number that is 0 has no place in such a table: a batch of one row has all of them.
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
        """How many there are; those of arrays within others follow theirs."""
        self.room = -(-len(self._bytes) // LINE) * LINE
        """Where the body begins in the memory of a batch."""

    def read(self, memory: pa.Buffer, rows: int, nodes: Ints, spans: Ints) -> pa.RecordBatch:
        """The batch whose body lies in `memory` from `room` on; `memory` lives as long as it.

        `nodes` has elements and nulls of each array; `spans` where each buffer begins in the body,
        and its size.
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
    """As much of FlatBuffers as it takes to find a number's place."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def _at(self, kind: str, place: int) -> int:
        (number,) = struct.unpack_from(kind, self._data, place)
        return int(number)

    def follow(self, place: int) -> int:
        """Where the table or vector begins that is named at this place."""
        return place + self._at("<I", place)

    def field(self, table: int, number: int) -> int:
        """Where a field of a table lies."""
        return table + self._at("<H", table - self._at("<i", table) + 4 + 2 * number)

    def vector(self, table: int, number: int) -> tuple[int, int]:
        """Where the elements of a field begin, and how many there are."""
        begin = self.follow(self.field(table, number))
        return begin + 4, self._at("<I", begin)


# Decode whole --------------------------------------------------------------------------------
# Whole batches by the native code: one call, one piece of memory, one message of Arrow's.
#
# The rest of the decoder finds records first and makes a batch of them column by column. This
# takes what is ordinary (one sort of head, all texts UTF-8, times that are dates, an id in each
# record) in one pass, while a record is in the cache, and gives the very same (docs/adr/0034,
# 0038, 0057).
#
# Where each buffer lies is fixed, for the most rows and bytes that a batch may have; memory that
# is not used is not touched. How large each became is a linear function of some numbers that the
# native code tells, so that one product gives all that Arrow's message says of it.


BODIES_MAX = 2 * 1024 * 1024
"""Bytes of the bodies of one batch."""
TEXTS_MAX = 1024 * 1024
"""Bytes of their properties."""
ROWS_MAX = 8192
_PAIRS_MAX = 64
"""Of one record."""
_TOPIC_MAX = 255
_FOUND_BY_COLUMN = {"tags": known.TAGS, "keys": known.KEYS, "msgId": known.UNIQ_KEY}
"""Columns that are the values of a property."""
_TOLD = (
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
"""`sizes` of whole.c."""
_NO = ""
"""A buffer that is left out: which rows are null, where none is."""


class WholeArgs(ctypes.Structure):
    """`whole` of whole.c; every field of it has eight bytes."""

    _fields_ = [
        *((name, _I64) for name in (
            "at", "limit", "size", "rows_max", "stop_flags", "body_max", "text_max", "end",
            "rawBounds", "raw")),
        *((f"told_{name}", _I64) for name in _TOLD),
        *((f"columns_{each[0]}", each[1]) for each in ColumnsArgs._fields_),
        *((f"pairs_{each[0]}", each[1]) for each in PairsArgs._fields_),
    ]  # fmt: skip


_FIELDS = {field[0]: at for at, field in enumerate(WholeArgs._fields_)}
_TOLD_AT = _FIELDS["told_one"]
_AT, _LIMIT, _STOP_FLAGS, _END = map(_FIELDS.__getitem__, ("at", "limit", "stop_flags", "end"))
_BEGINS = [_FIELDS[f"{part}_bytes"] for part in ("columns", "pairs")]
_SIZES = [_FIELDS[name] for name in ("size", "pairs_size")]


@dataclass(frozen=True, slots=True)
class _ArgumentBuffer:
    """One buffer: its field in the arguments, room for it, and its size as told: so many times
    what is told, and so many bytes more."""

    field: str
    room: int
    told: str
    times: int = 1
    more: int = 0


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A batch, and where the next record begins."""

    batch: pa.RecordBatch
    end: int


class Whole:
    """Batches of one choice of columns, of at most `rows` rows, from one broker. Thread-safe."""

    def __init__(self, names: tuple[str, ...], raw: bool, rows: int, broker_name: str) -> None:
        self._rows = rows
        self._broker = np.frombuffer((broker := broker_name.encode()) + b"\0", np.uint8)
        self._head = MessageHead(cols.schema(names, "raw" if raw else "map"))
        kinds = _buffers(rows, len(broker))
        order = [each for name in names for each in _buffers_of(name, raw)]
        wanted = dict.fromkeys(each for each in order if each != _NO)
        begins, size = {}, 0
        for each in wanted:
            begins[each] = size
            size += -(-kinds[each].room // LINE) * LINE
        self._size = self._head.room + size
        self._args = np.zeros(len(_FIELDS), np.int64)
        fixed = {
            "rows_max": rows,
            "body_max": BODIES_MAX,
            "text_max": TEXTS_MAX,
            "pairs_pairs_max": _PAIRS_MAX * rows,
            "columns_name_size": len(broker),
            "columns_name": address(self._broker),
            "pairs_all_have_ids": "msgId" in names,
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
            numbers.append(_linear(kind.told, kind.times, kind.more) if kind else _linear(_NO))
        self._numbers = np.array(numbers, np.int64)

    def decode(
        self, native: Library, raw: Bytes, at: int, limit: int, stop_flags: int
    ) -> DecodedBatch | None:
        """The records that begin in `at..limit`, or the first of them; None where that is for
        others: few of them, before one that is not ordinary or has a flag of `stop_flags`."""
        # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
        memory = pa.allocate_buffer(self._size)
        args = self._args.copy()
        args[self._places] = self._offsets + memory.address
        args[_BEGINS] = address(raw)
        args[_SIZES] = size = len(raw)
        args[_AT], args[_LIMIT], args[_STOP_FLAGS] = at, limit, stop_flags
        rows = native.whole(address(args))
        end, limit = int(args[_END]), min(limit, size)
        if not rows or (rows < self._rows and end < limit and end - at < (limit - at) // 2):
            return None
        told = args[_TOLD_AT : _TOLD_AT + len(_TOLD)]
        numbers = self._numbers @ told
        nodes, spans = numbers[: self._nodes], numbers[self._nodes :]
        return DecodedBatch(self._head.read(memory, rows, nodes, spans), end)


def _linear(told: str, times: int = 1, more: int = 0) -> list[int]:
    """How often each number that is told counts."""
    row = [times if told == name else 0 for name in _TOLD]
    row[0] += more
    return row


def _buffers(rows: int, broker: int) -> dict[str, _ArgumentBuffer]:
    """All that there may be, by names that `_buffers_of` uses."""
    bounds, pairs, text = 4 * rows + 4, 4 * _PAIRS_MAX * rows + 4, TEXTS_MAX + BLOCK
    found: dict[str, _ArgumentBuffer] = {}

    def add(name: str, field: str, room: int, told: str, times: int = 1, more: int = 0) -> None:
        found[name] = _ArgumentBuffer(field, room, told, times, more)

    def add_text(name: str, field: str, room: int, told: str, times: int = 1) -> None:
        add(f"{name}Bounds", f"{field}Bounds", bounds, "rows", 4, 4)
        add(name, field, room, told, times)

    for names, width in ((INT32, 4), (INT64, 8), (TIMES, 8)):
        for name in names:
            add(name, f"columns_{name}", width * rows, "rows", width)
    for host in HOSTS:
        add_text(host, f"columns_{host}", HOST_TEXT * rows + 32, host)
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
        add(column, f"pairs_{name}_data", text, name)
        add(f"{column}Valid", f"pairs_{name}_valid", rows // 8 + 1, "bits")
    return found


def _buffers_of(name: str, raw: bool) -> list[str]:
    """The message's buffers of a column."""
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
    """Of each array of a column what tells its elements and its nulls."""
    if name == "properties" and not raw:
        return [("rows", _NO), *[("pairs", _NO)] * 3]
    return [("rows", f"{_FOUND_BY_COLUMN[name]}_nulls" if name in _FOUND_BY_COLUMN else _NO)]


@lru_cache(maxsize=64)
def whole(names: tuple[str, ...], raw: bool, rows: int, broker_name: str) -> Whole:
    """The maker of batches with these columns, `properties` as text or as a map."""
    return Whole(names, raw, min(rows, ROWS_MAX), broker_name)


# Decode library ------------------------------------------------------------------------------
# The native code for the decoder, its layouts compared once with those of Python.


MIRRORED = {
    "rows": ctypes.sizeof(RowsArgs),
    "columns": ctypes.sizeof(ColumnsArgs),
    "pairs": ctypes.sizeof(PairsArgs),
    "whole": ctypes.sizeof(WholeArgs),
}
"""Structures of the decoder that C lays out as well."""


@lru_cache(maxsize=1)
def library() -> native.Library | None:
    """The native code, None when numpy does it all; `OurBug` when the layouts differ."""
    found = native.library()
    if found is not None:
        found.check_sizes(MIRRORED)
    return found
