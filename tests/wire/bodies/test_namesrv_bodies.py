"""Bodies of registration and routes: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import namesrv_bodies
from epochmq.wire.bodies.body import decode_body, encode_body


@pytest.mark.parametrize("cls", body_classes(namesrv_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_cluster_info_as_java_writes_it() -> None:
    data = (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"1.2.3.4:10911"},"brokerName":"b",'
        b'"cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["b"]}}'
    )
    got = decode_body(namesrv_bodies.ClusterInfo, data)
    assert got.broker_addr_table["b"].broker_addrs == {0: "1.2.3.4:10911"}
    assert b'"brokerAddrs":{"0":"1.2.3.4:10911"}' in encode_body(got)


def test_a_registration_without_anything() -> None:
    got = decode_body(namesrv_bodies.RegisterBrokerBody, b"{}")
    assert got == namesrv_bodies.RegisterBrokerBody()
    assert got.topic_config_serialize_wrapper.topic_config_table == {}


def test_no_broker_address_in_a_list_of_topics() -> None:
    assert encode_body(namesrv_bodies.TopicList(["T"])) == b'{"topicList":["T"]}'
