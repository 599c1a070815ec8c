"""Headers of the controller family: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import controller_headers


@pytest.mark.parametrize("cls", header_classes(controller_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_an_election_without_a_wish() -> None:
    ext = {"clusterName": "", "brokerName": "", "brokerId": "-1", "designateElect": "false"}
    assert encode_header(controller_headers.ElectMasterHeader()) == ext
    assert (
        decode_header(controller_headers.ElectMasterHeader, {})
        == controller_headers.ElectMasterHeader()
    )
