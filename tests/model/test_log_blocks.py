"""Blocks of a log: every byte once, and the same digest however a block lies in memory."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.log_blocks import blocks_of, digest


@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([1, 30, 64, 1000]))
def test_blocks_cover_a_range_and_end_at_multiples(low: int, length: int, size: int) -> None:
    at = low
    for offset, count in blocks_of(low, low + length, size):
        assert offset == at
        assert 0 < count <= size
        assert (offset + count) % size == 0 or offset + count == low + length
        at += count
    assert at == low + length


def test_a_range_that_ends_before_it_begins_has_no_blocks() -> None:
    assert list(blocks_of(10, 3, 4)) == []


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_a_digest_does_not_see_pieces(parts: list[bytes]) -> None:
    whole = hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()
    assert digest(parts) == digest([memoryview(b"".join(parts))]) == whole
