"""Bodies of client sessions: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import group_bodies
from epochmq.wire.bodies.body import decode_body, encode_body


@pytest.mark.parametrize("cls", body_classes(group_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_a_heartbeat_as_java_53_writes_it() -> None:
    data = (
        b'{"clientID":"1.2.3.4@1","consumerDataSet":[{"consumeFromWhere":'
        b'"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING",'
        b'"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[65],"expressionType":"TAG",'
        b'"subString":"A","subVersion":1663545600000,"tagsSet":["A"],"topic":"T"}],'
        b'"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":'
        b'"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
    )
    got = decode_body(group_bodies.HeartbeatData, data)
    (consumer,) = got.consumer_data_set
    (subscription,) = consumer.subscription_data_set
    assert got.client_id == "1.2.3.4@1"
    assert (consumer.group_name, subscription.code_set) == ("g", frozenset({65}))
    assert decode_body(group_bodies.HeartbeatData, encode_body(got)) == got


def test_a_heartbeat_as_careless_clients_write_it() -> None:
    data = (
        b'{"clientID":"c","producerDataSet":null,"consumerDataSet":[{"groupName":"g",'
        b'"subscriptionDataSet":[{"topic":"T","codeSet":["65"],"subVersion":"1663545600000",'
        b'"tagsSet":null,"classFilterMode":"false"}]}]}'
    )
    (consumer,) = decode_body(group_bodies.HeartbeatData, data).consumer_data_set
    assert consumer.subscription_data_set[0].code_set == frozenset({65})
    assert consumer.subscription_data_set[0].sub_version == 1663545600000


def test_odd_names() -> None:
    assert b'"clientID":"c"' in encode_body(group_bodies.HeartbeatData("c"))
    assert b'"remoteIP":"i"' in encode_body(group_bodies.ProducerInfo("c", "i"))
    assert (
        encode_body(group_bodies.ConsumerConnection())
        == b'{"connectionSet":[],"subscriptionTable":{}}'
    )
