"""Bodies of static topics: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import topic_bodies
from epochmq.wire.bodies.body import decode_body, encode_body


@pytest.mark.parametrize("cls", body_classes(topic_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_integer_keys() -> None:
    data = b'{"bname":"b","currIdMap":{0:1},"epoch":5,"scope":"__global__","topic":"T"}'
    got = decode_body(topic_bodies.TopicQueueMappingInfo, data)
    assert got.curr_id_map == {0: 1}
    assert b'"currIdMap":{"0":1}' in encode_body(got)
