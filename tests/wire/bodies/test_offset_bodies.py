"""Bodies of offsets: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies import offset_bodies
from epochmq.wire.bodies.body import decode_body, encode_body, mq_map_decode, mq_map_encode


@pytest.mark.parametrize("cls", body_classes(offset_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_a_reset_for_both_kinds_of_clients() -> None:
    queue = MessageQueue("T", "b", 0)
    body = offset_bodies.ResetOffsetBody(mq_map_encode([(queue, 5)]))
    assert mq_map_decode(
        decode_body(offset_bodies.ResetOffsetBody, encode_body(body)).offset_table
    ) == [(queue, 5)]
    flat = offset_bodies.ResetOffsetListBody([offset_bodies.QueueOffsetEntry("T", "b", 0, 5)])
    assert flat.offset_table[0].queue == queue
    assert b'{"topic":"T","brokerName":"b","queueId":0,"offset":5}' in encode_body(flat)
