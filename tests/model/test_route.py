"""Routes in JSON."""

import msgspec

from epochmq.model.topic import BrokerData, QueueData, TopicRouteData

_GOLDEN = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"1.2.3.4:10911","1":"1.2.3.5:10911"},"brokerName":"b",'
    b'"cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
    b'[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
_ROUTE = TopicRouteData(
    queue_datas=[QueueData("b", 4, 4, 6)],
    broker_datas=[BrokerData("c", "b", {0: "1.2.3.4:10911", 1: "1.2.3.5:10911"})],
)


def test_the_golden_route_is_read_and_written() -> None:
    assert msgspec.json.decode(_GOLDEN, type=TopicRouteData) == _ROUTE
    assert msgspec.json.decode(msgspec.json.encode(_ROUTE)) == msgspec.json.decode(_GOLDEN)


def test_optional_fields_are_left_out_until_set() -> None:
    route = TopicRouteData(order_topic_conf="b:4")
    assert b'"orderTopicConf":"b:4"' in msgspec.json.encode(route)
    assert b"topicQueueMappingByBroker" not in msgspec.json.encode(route)
    assert not BrokerData().zone_name


def test_a_4_9_route_lacks_what_5_0_added() -> None:
    raw = b'{"brokerDatas":[{"brokerAddrs":{},"brokerName":"b","cluster":"c"}],"queueDatas":[]}'
    route = msgspec.json.decode(raw, type=TopicRouteData)
    assert route.broker_datas == [BrokerData("c", "b")]
