"""Headers of replication helpers: round trips of all, exact fields of some."""

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


def test_an_empty_header_is_a_question() -> None:
    assert encode_header(admin_headers.ExchangeHAInfoHeader()) == {}
    assert (
        decode_header(
            admin_headers.ExchangeHAInfoHeader, {"masterFlushOffset": "7"}
        ).masterFlushOffset
        == 7
    )
