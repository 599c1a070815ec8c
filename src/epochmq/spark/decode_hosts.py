"""Hosts as `ip:port`, and the id that says where a message is stored.

Few hosts write many messages: each distinct one is written out once a batch.
"""

import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.model.host import V4_SIZE, V6_SIZE, format_addr, unpack
from epochmq.model.record import OFFSET_AT
from epochmq.spark import decode_cells
from epochmq.spark.decode_chase import Bytes, Ints, gather
from epochmq.spark.decode_heads import Flags, Rows

_HEX = np.frombuffer("".join(f"{n:02X}" for n in range(256)).encode(), np.uint16)
"""The two digits of each byte, as they lie in memory."""
_OFFSET_SIZE = 8
_Make = Callable[[Bytes, Ints, Ints, int], pa.StringArray]
"""Texts from the buffer, the records' places, their hosts' places, and the size of a host."""


def born_hosts(rows: Rows) -> pa.StringArray:
    if rows.born6 is None:
        return _v4(np.ascontiguousarray(rows.head["bornHost"]).view(np.uint64))
    return _by_family(rows, rows.born_host_at, rows.born6, _hosts)


def store_hosts(rows: Rows) -> pa.StringArray:
    if rows.store6 is None:
        return _v4(np.ascontiguousarray(rows.head["storeHost"]).view(np.uint64))
    return _by_family(rows, rows.store_host_at, rows.store6, _hosts)


def offset_ids(rows: Rows) -> pa.StringArray:
    """`model.message_id.offset_id` of each row."""
    return _by_family(rows, rows.store_host_at, rows.store6, _ids)


def _by_family(rows: Rows, host_at: Ints, v6: Flags | None, make: _Make) -> pa.StringArray:
    """Each family by itself, then all in their order again."""
    if v6 is None or not v6.any():
        return make(rows.raw, rows.at, host_at, V4_SIZE)
    four = make(rows.raw, rows.at[~v6], host_at[~v6], V4_SIZE)
    six = make(rows.raw, rows.at[v6], host_at[v6], V6_SIZE)
    place = np.empty(len(rows), np.int64)
    place[~v6] = np.arange(len(four))
    place[v6] = len(four) + np.arange(len(six))
    return pa.concat_arrays([four, six]).take(pa.array(place))


def _hosts(raw: Bytes, at: Ints, host_at: Ints, size: int) -> pa.StringArray:
    packed = gather(raw, host_at, size)
    if size == V4_SIZE:
        return _v4(packed.view(np.uint64))
    texts = [shown(each) for each in packed.tolist()]
    return pa.array(texts, pa.string())


def _v4(packed: NDArray[np.uint64]) -> pa.StringArray:
    """Hosts as 8-byte words, only told apart here; the first one alone is the common case."""
    if packed.size and (packed == packed[0]).all():
        return decode_cells.repeated(shown(packed[:1].tobytes()), len(packed))
    coded = pa.array(packed).dictionary_encode()
    texts = [_shown_word(word) for word in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


@lru_cache(maxsize=4096)
def shown(packed: bytes) -> str:
    """`ip:port` of 8 or 20 bytes, an IPv6 address in brackets."""
    return format_addr(*unpack(packed))


@lru_cache(maxsize=4096)
def _shown_word(word: int) -> str:
    return shown(word.to_bytes(V4_SIZE, sys.byteorder))


def _ids(raw: Bytes, at: Ints, host_at: Ints, size: int) -> pa.StringArray:
    count, width = len(at), size + _OFFSET_SIZE
    packed = np.empty((count, width), np.uint8)
    packed[:, :size] = gather(raw, host_at, size).view(np.uint8).reshape(count, size)
    packed[:, size:] = gather(raw, at + OFFSET_AT, 8).view(np.uint8).reshape(count, _OFFSET_SIZE)
    digits = pa.py_buffer(_HEX[packed])
    bounds = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * (2 * width))
    return pa.Array.from_buffers(pa.string(), count, [None, bounds, digits])
