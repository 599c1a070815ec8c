"""Headers of the sending family: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import encode_header
from epochmq.wire.headers import send_headers


@pytest.mark.parametrize("cls", header_classes(send_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_long_names() -> None:
    header = send_headers.SendHeader("g", "T", "TBW102", 4, -1, 0, 1663545600000, 0, batch=False)
    assert encode_header(header) == {
        "producerGroup": "g",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "-1",
        "sysFlag": "0",
        "bornTimestamp": "1663545600000",
        "flag": "0",
        "batch": "false",
    }


def test_short_names_differ_in_nothing_but_keys() -> None:
    header = send_headers.SendHeaderV2(
        "g", "T", "TBW102", 4, 3, 0, 7, 1, "p", 2, False, 16, True, "b"
    )
    ext = encode_header(header)
    assert list(ext) == list("abcdefghijklmn")
    assert set(send_headers.V2_KEYS) <= set(send_headers.SendHeaderV2.__struct_fields__)
    assert (ext["a"], ext["k"], ext["m"], ext["n"]) == ("g", "false", "true", "b")


def test_a_send_response_carries_the_region() -> None:
    header = send_headers.SendResponseHeader("ID", 1, 2, MSG_REGION="r", TRACE_ON="true")
    assert encode_header(header) == {
        "msgId": "ID",
        "queueId": "1",
        "queueOffset": "2",
        "MSG_REGION": "r",
        "TRACE_ON": "true",
    }
