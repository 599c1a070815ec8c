"""Columns of many records by one call of the native code, where there is one.

It gives what `decode_columns` makes with numpy, and makes nothing where a host is IPv6 or a time no
date: numpy takes the batch then (docs/adr/0034, 0038). What a call costs by itself counts here: a
megabyte of log has less than a thousand rows.
"""

import ctypes
from functools import lru_cache

import pyarrow as pa

from epochmq.spark.columns import ARROW
from epochmq.spark.decode_chase import address
from epochmq.spark.decode_heads import Rows
from epochmq.store.native.library import Library

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
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64


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
