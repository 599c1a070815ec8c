"""Whole batches by the compiled twin: two calls, one piece of memory, one message of Arrow's.

The rest of the decoder makes a batch column by column. This takes what is ordinary (hosts IPv4, all
texts UTF-8, times that are dates) and gives the very same (docs/adr/0034, 0038).
"""

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.model import property_names as known
from epochmq.spark import columns as cols
from epochmq.spark import decode_hosts
from epochmq.spark.decode_chase import address
from epochmq.spark.decode_heads import Rows
from epochmq.spark.decode_made import HOST_TEXT, HOSTS, INT32, INT64, TIMES, ColumnsArgs
from epochmq.spark.decode_message import LINE, Ints, MessageHead
from epochmq.spark.decode_packed import BLOCK, SMALLEST_PAIR, PairsArgs
from epochmq.store.twin.library import Library

_FOUND = {"tags": known.TAGS, "keys": known.KEYS, "msgId": known.UNIQ_KEY}
"""Columns that are the values of a property."""
_NO = ""
"""A buffer that is left out: which rows are null, where none is."""
_FOUR, _EIGHT, _BITS, _HOST, _PAIR, _TEXT, _TOPIC, _BROKER, _BODY = range(9)
"""Kinds of buffers, by their size: of numbers and bounds, of a host, of pairs' bounds, of texts."""
_PLAIN = dict.fromkeys(INT32, _FOUR) | dict.fromkeys((*INT64, *TIMES), _EIGHT)
_OF_PAIRS = dict.fromkeys(("name_bounds", "value_bounds"), _PAIR)
_OF_PAIRS |= {"bounds": _FOUR, "names": _TEXT, "values": _TEXT}
for _name in _FOUND.values():
    _OF_PAIRS |= {f"{_name}_bounds": _FOUR, f"{_name}_data": _TEXT, f"{_name}_valid": _BITS}
_OF_TEXTS = {"body": _BODY, "topic": _TOPIC, "brokerName": _BROKER} | dict.fromkeys(HOSTS, _HOST)


def _buffers_of(name: str) -> list[str]:
    """The message's buffers of a column, as fields of the twin's arguments."""
    if name in _PLAIN:
        return [_NO, name]
    if name in _FOUND:
        return [f"{_FOUND[name]}_{part}" for part in ("valid", "bounds", "data")]
    if name == "properties":
        texts = [_NO, "name_bounds", "names", _NO, "value_bounds", "values"]
        return [_NO, "bounds", _NO, *texts]
    return [_NO, name + "Bounds", name]


class _Args:
    """Arguments of one call as plain numbers: every field of these structures has eight bytes."""

    def __init__(self, kind: Any, wanted: dict[str, int]) -> None:
        self.fields = [name for name, _ in kind._fields_]
        which = [(at, wanted[name]) for at, name in enumerate(self.fields) if name in wanted]
        self._at = np.array([at for at, _ in which], np.int64)
        self._from = np.array([number for _, number in which], np.int64)

    def filled(self, places: Ints, first: tuple[int, ...], **more: int) -> Ints:
        """With the buffers at these places, the first fields, and others by name."""
        args = np.zeros(len(self.fields), np.int64)
        args[: len(first)] = first
        args[self._at] = places[self._from]
        for name, value in more.items():
            args[self.fields.index(name)] = value
        return args


class Whole:
    """Batches of one choice of columns. Thread-safe."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._head = MessageHead(cols.schema(names))
        order = [each for name in names for each in _buffers_of(name)]
        wanted = [each for each in dict.fromkeys(order) if each != _NO]
        self._has_pairs = any(each in _OF_PAIRS for each in wanted)
        if self._has_pairs:
            wanted += [each for each in _OF_PAIRS if each not in wanted]
        kinds = {**_PLAIN, **_OF_PAIRS, **_OF_TEXTS}
        # Whatever is no name of a column or of a field of pairs is some column's bounds.
        self._kinds = [kinds.get(each, _FOUR) for each in wanted]
        numbers = {each: at for at, each in enumerate(wanted)}
        own = {name: at for name, at in numbers.items() if name not in _OF_PAIRS}
        self._columns = _Args(ColumnsArgs, own)
        self._pairs = _Args(PairsArgs, {n: at for n, at in numbers.items() if n in _OF_PAIRS})
        self._nulls_at = [self._pairs.fields.index(f"{each}_nulls") for each in _FOUND.values()]
        self._count_at = self._pairs.fields.index("count")
        self._filled = np.array([each != _NO for each in order])
        self._order = np.array([numbers[each] for each in order if each != _NO], np.int64)
        nodes = [node for name in names for node in _nodes_of(name)]
        self._nodes = np.array(nodes, np.int64)
        self._id_at = names.index("msgId") if "msgId" in names else -1

    def batch(self, twin: Library, rows: Rows, broker_name: str) -> pa.RecordBatch | None:
        """The batch of these rows, one at least; None where one of them is not for the twin."""
        if rows.born6 is not None:
            return None
        count, head = len(rows.at), self._head
        sizes, most = self._sizes(rows, broker := broker_name.encode())
        rounded = (sizes + (LINE - 1)) & -LINE
        ends = np.cumsum(rounded)
        begins = ends - rounded
        # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
        memory = pa.allocate_buffer(head.room + int(ends[-1]))
        places = begins + (memory.address + head.room)
        parts = map(address, (rows.at, rows.body_to, rows.topic_at, rows.topic_to))
        name = np.frombuffer(broker + b"\0", np.uint8)
        given = {"name": address(name), "name_size": len(broker)}
        args = self._columns.filled(places, (address(rows.raw), count, *parts), **given)
        if not twin.columns(address(args)):
            return None
        lengths = np.array((count, 0))
        nulls = np.zeros(1 + len(_FOUND), np.int64)
        if self._has_pairs:
            texts = rows.properties_at
            first = (address(rows.raw), len(rows.raw), address(texts), address(rows.end), count)
            args = self._pairs.filled(places, first, pairs_max=most)
            if not twin.pairs(address(args)):
                return None
            lengths[1] = args[self._count_at]
            nulls[1:] = args[self._nulls_at]
        spans = np.zeros((head.buffers, 2), np.int64)
        spans[self._filled, 0] = begins[self._order]
        spans[self._filled, 1] = sizes[self._order]
        nodes = np.stack((lengths[self._nodes[:, 0]], nulls[self._nodes[:, 1]]), 1)
        found = head.read(memory, count, nodes, spans)
        if self._id_at >= 0 and found.column(self._id_at).null_count:
            ids = pc.coalesce(found.column(self._id_at), decode_hosts.offset_ids(rows))
            found = found.set_column(self._id_at, found.schema.field(self._id_at), ids)
        return found

    def _sizes(self, rows: Rows, broker: bytes) -> tuple[Ints, int]:
        """Of each buffer, and how many pairs there may be."""
        count = len(rows.at)
        text = int((rows.end - rows.topic_to).sum()) - 2 * count
        most = text // SMALLEST_PAIR + 1
        kinds = (
            *(4 * count + 4, 8 * count, count // 8 + 1, HOST_TEXT * count + 32, 4 * most + 4),
            *(text + BLOCK, int((rows.topic_to - rows.topic_at).sum()) + BLOCK),
            *(len(broker) * count, int((rows.body_to - rows.body_at).sum())),
        )
        return np.array([kinds[kind] for kind in self._kinds], np.int64), most


def _nodes_of(name: str) -> list[tuple[int, int]]:
    """Of each array of a column: whether it has an element a row (0) or a pair (1); and which
    number of nulls it has, of which the first is 0."""
    if name == "properties":
        return [(0, 0), (1, 0), (1, 0), (1, 0)]
    return [(0, 1 + list(_FOUND).index(name) if name in _FOUND else 0)]


@lru_cache(maxsize=64)
def whole(names: tuple[str, ...]) -> Whole:
    """The maker of batches with these columns; `properties` is a map."""
    return Whole(names)
