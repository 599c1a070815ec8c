"""Whole batches by the compiled twin: what the columns one by one give, or nothing."""

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark import records
from tests.spark.records import plain

from epochmq.spark import columns, decode_columns, decode_heads
from epochmq.spark.decode_chase import follow
from epochmq.spark.decode_columns import TIME_MS_MAX
from epochmq.spark.decode_heads import Rows
from epochmq.spark.decode_whole import whole
from epochmq.store.twin.library import library, which

pytestmark = pytest.mark.skipif(library() is None, reason=which())


def rows_of(data: bytes) -> Rows:
    walk = follow(memoryview(data), 0, len(data))
    return decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)[0]


def made(rows: Rows, names: Sequence[str] = columns.NAMES) -> pa.RecordBatch | None:
    twin = library()
    assert twin is not None
    return whole(tuple(names)).batch(twin, rows, "broker-a")


def one_by_one(rows: Rows, names: Sequence[str] = columns.NAMES) -> pa.RecordBatch:
    part = decode_columns.Part(rows, [], "broker-a", False, tuple(names))
    arrays = [decode_columns.build(name, part) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.schema(names))


def check(rows: Rows, names: Sequence[str] = columns.NAMES) -> None:
    found = made(rows, names)
    assert found is not None
    found.validate(full=True)
    assert found.equals(one_by_one(rows, names))


def any_log(rng: random.Random, count: int) -> bytes:
    topics = (b"T", b"T", b"t" * 17, "ü".encode())
    return b"".join(
        plain(
            at,
            body=rng.randbytes(rng.choice((0, 1, 900))),
            born=(f"10.0.0.{rng.randrange(90)}", rng.randrange(65536)),
            topic=rng.choice(topics),
            props=b"\x02".join(
                b"%s\x01%d" % (rng.choice((b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"WAIT")), at)
                for _ in range(rng.choice((0, 1, 4)))
            ),
        )
        for at in range(count)
    )


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 700])
def test_every_column_is_what_it_is_by_itself(count: int) -> None:
    check(rows_of(any_log(random.Random(count), count)))


@settings(max_examples=60)
@given(st.lists(st.sampled_from(columns.NAMES), min_size=1, unique=True), st.integers(1, 9))
def test_any_choice_of_columns(names: list[str], count: int) -> None:
    check(rows_of(any_log(random.Random(count), count)), names)


@settings(max_examples=100)
@given(st.lists(records.properties, min_size=1, max_size=5))
def test_any_properties(texts: list[bytes]) -> None:
    rows = rows_of(b"".join(plain(at, props=text) for at, text in enumerate(texts)))
    found = made(rows, ("properties", "tags", "keys", "msgId", "topic"))
    if found is not None:
        found.validate(full=True)
        assert found.equals(one_by_one(rows, found.schema.names))


def test_some_of_the_rows() -> None:
    rows = rows_of(any_log(random.Random(1), 100))
    check(rows.pick(np.arange(100) % 3 == 0))
    check(rows.pick(slice(90, 100)))


def test_the_unusual_is_left_to_others() -> None:
    late = bytearray(plain(1))
    late[56:64] = (TIME_MS_MAX + 1).to_bytes(8, "big")
    for strange in (
        plain(1, born=("2001:db8::7", 9)),
        plain(1, topic=b"\xff"),
        plain(1, props=b"TAGS\x01\xff"),
        bytes(late),
    ):
        assert made(rows_of(plain(0) + strange)) is None
    assert made(rows_of(plain(0) + plain(1, props=b"TAGS\x01\xff")), ("body", "topic")) is not None
