"""Whole batches by the native code: one call, one piece of memory, one message of Arrow's.

The rest of the decoder finds records first and makes a batch of them column by column. This takes
what is ordinary (one sort of head, all texts UTF-8, times that are dates, an id in each record) in
one pass, while a record is in the cache, and gives the very same (docs/adr/0034, 0038, 0057).

Where each buffer lies is fixed, for the most rows and bytes that a batch may have; memory that is
not used is not touched. How large each became is a linear function of some numbers that the native
code tells, so that one product gives all that Arrow's message says of it.
"""

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from epochmq.model import property_names as known
from epochmq.spark import columns as cols
from epochmq.spark.decode_chase import Bytes, address
from epochmq.spark.decode_made import HOST_TEXT, HOSTS, INT32, INT64, TIMES, ColumnsArgs
from epochmq.spark.decode_message import LINE, MessageHead
from epochmq.spark.decode_packed import BLOCK, PairsArgs
from epochmq.store.native.library import Library

BODIES_MAX = 2 * 1024 * 1024
"""Bytes of the bodies of one batch."""
TEXTS_MAX = 1024 * 1024
"""Bytes of their properties."""
ROWS_MAX = 8192
_PAIRS_MAX = 64
"""Of one record."""
_TOPIC_MAX = 255
_FOUND = {"tags": known.TAGS, "keys": known.KEYS, "msgId": known.UNIQ_KEY}
"""Columns that are the values of a property."""
_I64 = ctypes.c_int64
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
    *_FOUND.values(),
    "raw",
    *(f"{name}_nulls" for name in _FOUND.values()),
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
    for column, name in _FOUND.items():
        add(f"{column}Bounds", f"pairs_{name}_bounds", bounds, "rows", 4, 4)
        add(column, f"pairs_{name}_data", text, name)
        add(f"{column}Valid", f"pairs_{name}_valid", rows // 8 + 1, "bits")
    return found


def _buffers_of(name: str, raw: bool) -> list[str]:
    """The message's buffers of a column."""
    if name in INT32 or name in INT64 or name in TIMES:
        return [_NO, name]
    if name in _FOUND:
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
    return [("rows", f"{_FOUND[name]}_nulls" if name in _FOUND else _NO)]


@lru_cache(maxsize=64)
def whole(names: tuple[str, ...], raw: bool, rows: int, broker_name: str) -> Whole:
    """The maker of batches with these columns, `properties` as text or as a map."""
    return Whole(names, raw, min(rows, ROWS_MAX), broker_name)
