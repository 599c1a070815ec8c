"""Bodies of topic administration: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import topic_bodies
from epochmq.wire.bodies.body import decode_body


@pytest.mark.parametrize("cls", body_classes(topic_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_the_table_of_a_49_broker() -> None:
    data = (
        b'{"dataVersion":{"counter":3,"timestamp":9},"topicConfigTable":{"T":{"order":false,'
        b'"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T",'
        b'"topicSysFlag":0,"writeQueueNums":8}}}'
    )
    got = decode_body(topic_bodies.TopicConfigTable, data)
    assert (got.data_version.counter, got.topic_config_table["T"].read_queue_nums) == (3, 8)
    assert got.topic_queue_mapping_info_map == {}
