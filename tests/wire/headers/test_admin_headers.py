"""Headers of pushes and administration: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import admin_headers


@pytest.mark.parametrize("cls", header_classes(admin_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_reset_offset_of_a_49_tool() -> None:
    ext = {"group": "g", "topic": "T", "timestamp": "-1", "isForce": "true"}
    header = decode_header(admin_headers.ResetOffsetHeader, ext)
    assert header == admin_headers.ResetOffsetHeader("g", "T", -1, True)
    assert encode_header(header) == ext
