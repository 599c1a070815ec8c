"""Bodies of the POP family: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.base.errors import HeaderError
from epochmq.wire.bodies import pop_bodies
from epochmq.wire.bodies.body import decode_body, encode_body


@pytest.mark.parametrize("cls", body_classes(pop_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_batch_ack_bit_set() -> None:
    data = b'{"acks":[{"c":"g","t":"T","r":"0","so":100,"q":0,"rq":1,"pt":2,"it":3,"b":"AQI="}]}'
    (ack,) = decode_body(pop_bodies.BatchAckBody, data).acks
    assert ack.offsets(2) == [100, 109]
    assert ack.offsets(1) is None


def test_a_bit_set_that_is_no_base64() -> None:
    for bad in ("!", "A", "é"):
        with pytest.raises(HeaderError):
            pop_bodies.BatchAck(bit_set=bad).offsets(1_024)


def test_skip_this_round_differs_from_drop_all() -> None:
    assert encode_body(pop_bodies.QueryAssignmentResponse()) == b"{}"
    assert encode_body(pop_bodies.QueryAssignmentResponse([])) == b'{"messageQueueAssignments":[]}'
