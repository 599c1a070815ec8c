"""Headers of offsets: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header
from epochmq.wire.headers import offset_headers


@pytest.mark.parametrize("cls", header_classes(offset_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_set_zero_if_not_found_has_three_states() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    cls = offset_headers.QueryConsumerOffsetHeader
    assert decode_header(cls, ext).setZeroIfNotFound is None
    assert decode_header(cls, {**ext, "setZeroIfNotFound": "false"}).setZeroIfNotFound is False
    assert decode_header(cls, {**ext, "setZeroIfNotFound": "true"}).setZeroIfNotFound is True
