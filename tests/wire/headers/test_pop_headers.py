"""Headers of the POP family: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import pop_headers


@pytest.mark.parametrize("cls", header_classes(pop_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_order_is_optional() -> None:
    header = pop_headers.PopHeader("g", "T", -1, 32, 60000, 15000, 1, pop_headers.INIT_MAX)
    assert "order" not in encode_header(header)
    assert decode_header(pop_headers.PopHeader, encode_header(header)).queueId == -1
