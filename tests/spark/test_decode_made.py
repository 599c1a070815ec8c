"""Columns by the native code: the same as by numpy, and left to it where they are unusual."""

import io
import random

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.records import plain

from epochmq.spark import columns, decode_columns, decode_heads, decode_native
from epochmq.spark.decode import Decoder
from epochmq.spark.decode_columns import TIME_MS_MAX, TIME_MS_MIN, BatchRows
from epochmq.spark.decode_heads import Rows, address, follow
from epochmq.store.native.library import library, which

pytestmark = pytest.mark.skipif(library() is None, reason=which())
MADE = set(columns.NAMES) - {"brokerName", "tags", "keys", "properties", "msgId", "topic"}


def rows_of(data: bytes) -> Rows:
    walk = follow(memoryview(data), 0, len(data))
    return decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)[0]


def made(rows: Rows, names: tuple[str, ...] = columns.NAMES) -> decode_native.MadeColumns | None:
    native = library()
    assert native is not None
    return decode_native.made(native, rows, names)


def any_log(rng: random.Random, count: int) -> bytes:
    hosts = [(f"10.{n}.255.0", rng.choice((0, 7, 65535))) for n in range(100)]
    return b"".join(
        plain(
            at,
            body=rng.randbytes(rng.choice((0, 1, 900))),
            born=rng.choice(hosts),
            store=hosts[0],
        )
        for at in range(count)
    )


@pytest.mark.parametrize("count", [1, 63, 64, 65, 700])
def test_every_column_is_what_numpy_makes(count: int) -> None:
    rows = rows_of(any_log(random.Random(count), count))
    found = made(rows)
    assert found is not None
    assert found.one_topic
    assert set(found.columns) == MADE
    part = BatchRows(rows, [], "b", False)
    part.__dict__["made"] = None
    for name, column in found.columns.items():
        column.validate(full=True)
        assert column.equals(decode_columns.build(name, part)), name


def test_memory_that_is_left_over_is_not_sent() -> None:
    decoder = Decoder(properties="raw")
    data = b"".join(plain(at, body=b"") for at in range(65))
    (batch,) = decoder.batches(data, "b")
    sent = io.BytesIO()
    with pa.ipc.new_stream(sent, batch.schema) as stream:
        stream.write_batch(batch)
    (back,) = pa.ipc.open_stream(sent.getvalue())
    assert back.equals(batch)
    assert sent.tell() < 65 * (20 * 4 + 8 * 8 + 150) + 8_000


def test_only_what_is_wanted_is_made() -> None:
    found = made(rows_of(plain(0) * 3), ("queueId", "storeHost", "topic"))
    assert found is not None
    assert set(found.columns) == {"queueId", "storeHost"}


def test_some_of_the_rows() -> None:
    rows = rows_of(b"".join(plain(at, body=b"%d" % at) for at in range(100)))
    picked = rows.pick(np.arange(100) % 3 == 0)
    found = made(picked.pick(slice(2, 5)))
    assert found is not None
    assert found.columns["body"].to_pylist() == [b"6", b"9", b"12"]
    assert found.columns["queueOffset"].to_pylist() == [6, 9, 12]


def test_it_says_when_topics_differ() -> None:
    for other in (b"T", b"Another", b"longer than the first one"):
        found = made(rows_of(plain(0, topic=b"Earlier") * 2 + plain(1, topic=other)))
        assert found is not None
        assert not found.one_topic


def test_a_long_topic_is_read_as_well() -> None:
    found = made(rows_of(plain(0, topic=b"%RETRY%" + b"g" * 130) * 2))
    assert found is not None
    assert found.one_topic


@pytest.mark.parametrize(
    ("when", "taken"),
    [(TIME_MS_MIN, True), (TIME_MS_MAX, True), (TIME_MS_MIN - 1, False), (TIME_MS_MAX + 1, False)],
)
def test_a_time_that_is_no_date_is_left_to_numpy(when: int, taken: bool) -> None:
    odd = bytearray(plain(1))
    odd[56:64] = when.to_bytes(8, "big", signed=True)
    rows = rows_of(plain(0) + bytes(odd))
    assert (made(rows) is not None) == taken
    assert made(rows, ("body", "bornTimestamp")) is not None


def test_ipv6_is_left_to_numpy() -> None:
    assert made(rows_of(plain(0) + plain(1, born=("2001:db8::7", 9)))) is None


def test_address_is_that_of_the_first_element() -> None:
    array = np.arange(10)
    assert address(array[3:]) == array.ctypes.data + 3 * array.itemsize
