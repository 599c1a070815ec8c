"""Headers of transactions: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import send_headers


@pytest.mark.parametrize("cls", header_classes(send_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


def test_end_of_a_transaction() -> None:
    ext = {
        "producerGroup": "g",
        "tranStateTableOffset": "1",
        "commitLogOffset": "2",
        "commitOrRollback": "8",
        "msgId": "m",
        "fromTransactionCheck": "false",
    }
    header = decode_header(send_headers.EndTransactionHeader, ext)
    assert header.commitOrRollback == send_headers.COMMIT
    assert encode_header(header) == ext
