"""Packed keys, and Java's hash in them."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from epochmq.native.native_index import KEY_BYTES, PackedKeys, place_of, unpack_keys

PLACES = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**32 - 1))


@given(st.lists(PLACES, min_size=1))
def test_what_is_packed_comes_out_again(rows: list[tuple[int, int, int]]) -> None:
    data = b"".join(pack("=qqII", *row, 0) for row in rows)
    keys = PackedKeys(data, rows[0][0], 0, rows[0][1])
    assert len(keys) == len(rows) == len(data) // KEY_BYTES
    assert unpack_keys(data) == ([h for _, _, h in rows], [(o, w) for o, w, _ in rows])
    assert place_of(data, len(data) - KEY_BYTES) == rows[-1][:2]
