"""Golden bytes of RocketMQ's frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError
from epochmq.base.limits import HA_BODY_BYTES_MAX
from epochmq.replication.plain.plain_frames import (
    Head,
    decode_head,
    decode_reports,
    encode_head,
    encode_report,
)


def test_a_report() -> None:
    assert encode_report(0x140000000) == bytes.fromhex("0000000140000000")


def test_all_whole_reports_are_read() -> None:
    data = encode_report(1) + encode_report(2) + b"\0\0\0"
    assert decode_reports(data) == ([1, 2], 16)
    assert decode_reports(b"\0" * 7) == ([], 0)


def test_a_head() -> None:
    data = bytes.fromhex("0000000040000000 00008000")
    assert encode_head(1 << 30, 32768) == data
    assert decode_head(b"x" + data, 1) == Head(1 << 30, 32768)


@pytest.mark.parametrize("size", [-1, HA_BODY_BYTES_MAX + 1])
def test_a_body_has_bounds(size: int) -> None:
    with pytest.raises(PeerError):
        decode_head(encode_head(0, size))


@given(st.binary(min_size=12, max_size=40))
def test_garbage(data: bytes) -> None:
    reports, used = decode_reports(data)
    assert used == 8 * len(reports) <= len(data)
    try:
        assert 0 <= decode_head(data).body_bytes <= HA_BODY_BYTES_MAX
    except PeerError:
        pass
