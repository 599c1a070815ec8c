"""Arrow's message of a record batch, made up around buffers that lie behind it already.

What Python makes array by array takes 1.5 us each, and a batch has twenty; reading a message makes
all of them at once, without a copy. The head of a message (Arrow's format: Message.fbs) is the same
for all batches of a schema, but for its numbers: it is taken from Arrow itself, and they are set.
"""

import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
