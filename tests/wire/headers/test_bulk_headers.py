"""Headers of our bulk requests: round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header
from epochmq.wire.headers import pull_headers


@pytest.mark.parametrize("cls", header_classes(pull_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_only_topic_queue_and_offset_must_be_given() -> None:
    ext = {"topic": "T", "queueId": "1", "offset": "2"}
    header = decode_header(pull_headers.BulkReadHeader, ext)
    assert (header.maxBytes, header.endOffset, header.tags) == (None, None, None)
