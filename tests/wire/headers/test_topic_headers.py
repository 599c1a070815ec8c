"""Headers of topic administration: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import topic_headers


@pytest.mark.parametrize("cls", header_classes(topic_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_49_sends_no_attributes() -> None:
    ext = {
        "topic": "T",
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "8",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    header = decode_header(topic_headers.CreateTopicHeader, ext)
    assert (header.attributes, header.force, header.order) == (None, None, False)
    assert encode_header(header) == ext
