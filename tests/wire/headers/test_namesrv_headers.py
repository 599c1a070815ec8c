"""Headers of registration and routes: round trips of all, exact fields of some."""

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


def test_the_zone_travels_under_its_own_name() -> None:
    header = namesrv_headers.RegisterBrokerHeader("b", "a:1", "c", "h:2", 0, zoneName="z")
    ext = encode_header(header)
    assert ext["__ZONE_NAME"] == "z"
    assert ext["compressed"] == "false"
    assert ext["bodyCrc32"] == "0"
    assert "heartbeatTimeoutMillis" not in ext


def test_no_acting_master_field_means_an_old_broker() -> None:
    ext = {
        "brokerName": "b",
        "brokerAddr": "a",
        "clusterName": "c",
        "haServerAddr": "h",
        "brokerId": "0",
    }
    assert decode_header(namesrv_headers.RegisterBrokerHeader, ext).enableActingMaster is None
