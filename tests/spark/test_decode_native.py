"""The native code gives what numpy gives, and stops before what is not its own."""

import random

import numpy as np
import pytest
from tests.spark.records import mutated, plain

from epochmq.model import record
from epochmq.spark import decode_heads, decode_native
from epochmq.spark.decode_heads import Rows, follow
from epochmq.store.native.library import library, which

pytestmark = pytest.mark.skipif(library() is None, reason=which())
V6 = ("2001:db8::7", 9)


def by_native(data: bytes, limit: int = 2**40) -> Rows | None:
    native = library()
    assert native is not None
    return decode_native.ordinary(native, np.frombuffer(data, np.uint8), 0, limit)


def by_numpy(data: bytes) -> Rows:
    walk = follow(memoryview(data), 0, len(data))
    return decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)[0]


def check_front(data: bytes) -> int:
    """What the native code took is the front of what numpy finds; how many rows that are."""
    taken, expected = by_native(data), by_numpy(data)
    if taken is None:
        return 0
    front = expected.pick(slice(len(taken)))
    for name in ("at", "head", "sys_flag", "body_at", "body_to", "topic_at", "topic_to", "end"):
        assert getattr(taken, name).tolist() == getattr(front, name).tolist(), name
    return len(taken)


def test_ordinary_records_are_all_taken() -> None:
    data = b"".join(plain(at, body=b"x" * at, props=b"a\x01b" * (at % 3)) for at in range(500))
    assert check_front(data) == 500


@pytest.mark.parametrize(
    "strange",
    [
        plain(9, born=V6),
        plain(9, store=V6),
        plain(9, topic=b"%RETRY%" + b"g" * 130),
        record.blank(100) + bytes(92),
        plain(9)[:-1],
        bytes(100),
        b"",
    ],
)
def test_it_stops_before_what_is_not_ordinary(strange: bytes) -> None:
    assert check_front(plain(1) * 3 + strange) == 3
    if strange:
        assert by_native(strange) is None


def test_it_stops_at_the_limit_behind_a_whole_record_and_when_its_room_is_full() -> None:
    rows = by_native(plain() * 10, len(plain()) + 1)
    assert rows is not None
    assert rows.end.tolist() == [len(plain()), 2 * len(plain())]
    rows = by_native(plain() * (decode_native.RECORDS_MAX + 5))
    assert rows is not None
    assert len(rows) == decode_native.RECORDS_MAX


@pytest.mark.fuzz
def test_mutated_records_are_never_taken_when_they_are_not_sound() -> None:
    rng = random.Random(11)
    taken = sum(check_front(mutated(rng, plain(1) * 4)) for _ in range(2000))
    assert taken > 1000
