"""A message made up around buffers is the batch that they would make."""

import numpy as np
import pyarrow as pa
import pytest

from epochmq.spark import columns
from epochmq.spark.decode_native import LINE, MessageHead

KIND = pa.schema([("n", pa.int64()), ("t", pa.string()), ("m", pa.map_(pa.string(), pa.string()))])


def buffers_of(array: pa.Array) -> list[pa.Buffer | None]:
    found: list[pa.Buffer | None] = array.buffers()
    return found


def test_a_batch_of_its_own_buffers() -> None:
    maps = [[("a", "1"), ("b", "2")], [], [("c", "3")]]
    batch = pa.record_batch([pa.array([7, 8, 9]), ["x", None, "zz"], maps], schema=KIND)
    head = MessageHead(batch.schema)
    parts = [part for column in batch.columns for part in buffers_of(column)]
    assert head.buffers == len(parts)
    body, spans = b"", []
    for part in parts:
        spans.append((len(body), 0 if part is None else part.size))
        body += b"" if part is None else part.to_pybytes()
        body += bytes(-len(body) % LINE)
    memory = pa.allocate_buffer(head.room + len(body))
    np.frombuffer(memory, np.uint8)[head.room :] = np.frombuffer(body, np.uint8)
    nodes = [(3, 0), (3, 1), (3, 0), (3, 0), (3, 0), (3, 0)]
    made = head.read(memory, 3, np.array(nodes), np.array(spans))
    made.validate(full=True)
    assert made.equals(batch)
    address = made.column(0).buffers()[1].address
    assert 0 <= address - memory.address < memory.size, "nothing was copied"


@pytest.mark.parametrize("names", [columns.NAMES, ("body",), ("properties", "tags")])
def test_the_body_begins_at_a_line(names: tuple[str, ...]) -> None:
    assert MessageHead(columns.schema(names)).room % LINE == 0
