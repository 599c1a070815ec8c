"""Headers of key-value configuration: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.headers import kv_headers
from epochmq.wire.headers.header import decode_header, encode_header


@pytest.mark.parametrize("cls", header_classes(kv_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_put() -> None:
    ext = {"namespace": "n", "key": "k", "value": "v"}
    assert encode_header(kv_headers.PutKVConfigHeader("n", "k", "v")) == ext
    assert decode_header(kv_headers.PutKVConfigHeader, ext) == kv_headers.PutKVConfigHeader(
        "n", "k", "v"
    )
