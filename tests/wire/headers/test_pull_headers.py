"""Headers of pulls: round trips of all, exact fields of some."""

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


def test_a_53_client_may_add_fields() -> None:
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "1",
        "queueOffset": "2",
        "maxMsgNums": "32",
        "sysFlag": "3",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subVersion": "1663545600000",
        "bname": "b",
        "lo": "false",
        "proxyFrowardClientId": "p",
        "unheard": "of",
    }
    header = decode_header(pull_headers.PullHeader, ext)
    assert (header.bname, header.lo, header.proxyFrowardClientId) == ("b", False, "p")
    assert header.subscription is None
