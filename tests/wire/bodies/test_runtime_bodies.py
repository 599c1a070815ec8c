"""Bodies of what runs inside: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import runtime_bodies
from epochmq.wire.bodies.body import decode_body, encode_body, mq_map_decode


@pytest.mark.parametrize("cls", body_classes(runtime_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_running_info_as_java_writes_it() -> None:
    data = (
        b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"cachedMsgSizeInMiB":2,'
        b'"droped":true}},"properties":{"PROP_CONSUMER_START_TIMESTAMP":1663545600000,'
        b'"PROP_CONSUMEORDERLY":false},"statusTable":{"T":{"pullRT":1.5,"consumeOKTPS":2.0}}}'
    )
    got = decode_body(runtime_bodies.ConsumerRunningInfo, data)
    assert got.properties == {
        runtime_bodies.PROP_CONSUMER_START_TIMESTAMP: "1663545600000",
        runtime_bodies.PROP_CONSUME_ORDERLY: "false",
    }
    ((queue, info),) = mq_map_decode(got.mq_table)
    assert (queue.topic, info.cached_msg_size_in_mib, info.droped) == ("T", 2, True)
    assert got.status_table["T"].consume_ok_tps == 2.0


def test_a_result_without_remark() -> None:
    assert b"remark" not in encode_body(runtime_bodies.ConsumeDirectlyResult())
