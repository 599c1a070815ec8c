"""Headers of key-value configuration: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import namesrv_headers


@pytest.mark.parametrize("cls", header_classes(namesrv_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_put() -> None:
    ext = {"namespace": "n", "key": "k", "value": "v"}
    assert encode_header(namesrv_headers.PutKVConfigHeader("n", "k", "v")) == ext
    assert decode_header(
        namesrv_headers.PutKVConfigHeader, ext
    ) == namesrv_headers.PutKVConfigHeader("n", "k", "v")
