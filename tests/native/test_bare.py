"""Records without their bodies: what a reader that wants none sees is the same."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.records import mutated, plain, runs

from epochmq.base.errors import EpochError
from epochmq.base.limits import BULK_READ_BYTES_MAX
from epochmq.model import record
from epochmq.native import library
from epochmq.native.library import Bare
from epochmq.spark.columns import NAMES
from epochmq.spark.decode import CorruptRecord, Decoder

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())
NO_BODY = [name for name in NAMES if name != "body"]


def bare(data: bytes) -> bytes:
    native = library.library()
    assert native is not None
    half = len(data) // 2
    return Bare(native).of([memoryview(data)[:half], memoryview(data)[half:]])


def rows(data: bytes) -> tuple[list[dict[str, object]], str]:
    """All rows but their bodies, and what ended them."""
    found: list[dict[str, object]] = []
    try:
        for batch in Decoder(NO_BODY).batches(data, "b"):
            found += batch.to_pylist()
    except CorruptRecord as error:
        return found, error.kind
    except EpochError as error:
        return found, type(error).__name__
    return found, ""


@given(runs, st.binary(max_size=100))
def test_rows_are_the_same_but_for_bodies(data: bytes, tail: bytes) -> None:
    for joined in (data, data + tail):
        assert rows(bare(joined)) == rows(joined)


def test_bodies_are_gone_and_nothing_else() -> None:
    data = b"".join(plain(at, body=b"x" * 50 * at) for at in range(20))
    made = bare(data)
    assert len(made) == len(data) - sum(50 * at for at in range(20))
    for one, other in zip(record.decode_all(made), record.decode_all(data), strict=True):
        assert one.body == b""
        assert (one.properties, one.queue_offset, one.offset, one.body_crc) == (
            other.properties,
            other.queue_offset,
            other.offset,
            other.body_crc,
        )


@pytest.mark.parametrize("born", [("10.0.0.2", 1), ("2001:db8::7", 9)])
@pytest.mark.parametrize("store", [("10.0.0.2", 1), ("2001:db8::7", 9)])
@pytest.mark.parametrize("topic", [b"T", b"%RETRY%" + b"g" * 130])
def test_all_sorts_of_heads(born: tuple[str, int], store: tuple[str, int], topic: bytes) -> None:
    data = plain(3, body=b"x" * 40, born=born, store=store, topic=topic) * 3
    made = bare(data)
    assert len(made) == len(data) - 120
    assert rows(made) == rows(data)


def test_what_is_no_record_stays_with_all_behind_it() -> None:
    one = plain(1, body=b"x" * 40)
    for strange in (one[:-1], record.blank(100) + bytes(92), bytes(100), b"x"):
        data = one + strange
        assert bare(data) == bare(one) + strange
    assert bare(b"") == b""
    kept = plain(1, flags=0x80, body=b"x" * 40)
    assert bare(one + kept + one) == bare(one) + kept + bare(one)


def test_what_is_larger_than_a_bulk_read_stays() -> None:
    data = plain(1, body=bytes(BULK_READ_BYTES_MAX))
    assert bare(data) == data


@pytest.mark.fuzz
def test_mutated_records_give_the_same_rows() -> None:
    rng = random.Random(5)
    for _ in range(1500):
        data = mutated(rng, b"".join(plain(at, body=b"body") for at in range(4)))
        one, other = rows(bare(data)), rows(data)
        assert one == other
