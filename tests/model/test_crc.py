"""CRC-32 without its sign bit."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.crc import crc32


def test_golden_value() -> None:
    assert crc32(b"hello") == 907060870


@given(st.binary(max_size=300))
def test_it_is_zlib_s_masked_for_any_buffer(data: bytes) -> None:
    wanted = zlib.crc32(data) & 0x7FFFFFFF
    assert crc32(data) == crc32(bytearray(data)) == crc32(memoryview(data)) == wanted
