"""Finding records: by their sizes alone; bodies full of magic numbers mislead nobody."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.records import plain, runs, slow

from epochmq.model import record
from epochmq.spark.decode_heads import CorruptRecord, chase, follow

MAGIC = record.MAGIC_V1.to_bytes(4, "big")


def one_by_one(data: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(data):
        size, magic = struct.unpack_from(">II", data, at)
        if magic != record.MAGIC_BLANK:
            starts.append(at)
        at += size
    return starts


@given(runs)
def test_every_record_is_found_and_no_filler(data: bytes) -> None:
    assert chase(data).tolist() == one_by_one(data)


@pytest.mark.parametrize("seed", range(30))
def test_bodies_full_of_records_mislead_nobody(seed: int) -> None:
    rng = random.Random(seed)
    lure = plain(9) + MAGIC + struct.pack(">I", rng.randrange(200)) + MAGIC * 3
    bodies = [b"", b"x" * 300, MAGIC * 5, lure, lure * 3, bytes(50)]
    parts = [
        plain(at, body=rng.choice(bodies)) if rng.random() < 0.95 else record.blank(40).ljust(40)
        for at in range(rng.randrange(20, 400))
    ]
    data = b"".join(parts)
    assert chase(data).tolist() == one_by_one(data)


@pytest.mark.parametrize("seed", range(30))
def test_a_break_in_a_long_run_is_found_where_the_slow_decoder_finds_it(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(b"".join(plain(at, body=b"y" * rng.randrange(99)) for at in range(200)))
    at = rng.choice(one_by_one(bytes(data)))
    data[at : at + 8] = rng.choice(
        [bytes(8), struct.pack(">II", 8, 1), struct.pack(">I", 5) + MAGIC, b"\xff" * 8]
    )
    with pytest.raises(CorruptRecord) as error:
        chase(bytes(data))
    assert error.value.offset_in_buffer == slow(bytes(data))[1] == at


def test_sizes_come_with_the_places() -> None:
    data = b"".join(plain(at, body=b"z" * (at % 700)) for at in range(5000))
    walk = follow(memoryview(data), 0, len(data))
    assert walk.at.tolist() == one_by_one(data)
    assert np.array_equal(walk.sizes, np.diff(walk.at, append=len(data)))
    assert walk.stop == len(data)


def test_a_walk_ends_at_its_limit_behind_a_whole_record() -> None:
    data = b"".join(plain(at) for at in range(10))
    size = len(plain())
    walk = follow(memoryview(data), 0, size + 1)
    assert (walk.at.tolist(), walk.stop, walk.fault) == ([0, size], 2 * size, None)
    walk = follow(memoryview(data), 2 * size, 3 * size)
    assert (walk.at.tolist(), walk.stop) == ([2 * size], 3 * size)


@given(st.integers(1, 104))
def test_a_record_cut_off_is_torn_and_told_where(left: int) -> None:
    data = plain() + plain()[:left]
    with pytest.raises(CorruptRecord) as error:
        chase(data)
    assert (error.value.offset_in_buffer, error.value.kind) == (len(plain()), "torn")


def test_zeros_are_the_end_of_data_and_no_damage() -> None:
    with pytest.raises(CorruptRecord) as error:
        chase(plain() + bytes(1000))
    assert (error.value.kind, error.value.resume_at) == ("nothing", None)


def test_a_filler_may_reach_behind_the_data() -> None:
    assert chase(plain() + record.blank(5000)).tolist() == [0]


def test_nothing_is_found_in_nothing() -> None:
    assert chase(b"").tolist() == []
