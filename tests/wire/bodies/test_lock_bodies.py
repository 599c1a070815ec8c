"""Bodies of queue locks: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies import group_bodies
from epochmq.wire.bodies.body import decode_body, encode_body


@pytest.mark.parametrize("cls", body_classes(group_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_a_lock_request_of_49() -> None:
    data = (
        b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    )
    got = decode_body(group_bodies.LockBatchRequest, data)
    assert got == group_bodies.LockBatchRequest("g", "c", [MessageQueue("T", "b", 0)])
    assert encode_body(group_bodies.LockBatchResponse()) == b'{"lockOKMQSet":[]}'
