"""Headers of client sessions: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import encode_header
from epochmq.wire.headers import group_headers


@pytest.mark.parametrize("cls", header_classes(group_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_v2_heartbeat_marks() -> None:
    header = group_headers.HeartbeatResponseHeader(True, False)
    assert encode_header(header) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
