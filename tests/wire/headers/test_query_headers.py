"""Headers of message look-ups: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import offset_headers


@pytest.mark.parametrize("cls", header_classes(offset_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_the_unique_key_switch() -> None:
    ext = {
        "topic": "T",
        "key": "k",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": "9223372036854775807",
        "_UNIQUE_KEY_QUERY": "true",
    }
    header = decode_header(offset_headers.QueryMessageHeader, ext)
    assert header.uniqueKey is True
    assert encode_header(header) == ext
