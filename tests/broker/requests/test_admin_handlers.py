"""Housekeeping by hand and single counters."""

from tests.broker.fake_node import FakeNode
from tests.broker.requests.helpers import answer, json_of

from epochmq.wire.codes import RequestCode


def test_system_topics() -> None:
    body = json_of(answer(FakeNode(), RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "b"} <= set(body["topicList"])


def test_counters() -> None:
    node = FakeNode()
    item = node.stats.item("TOPIC_PUT_NUMS", "T")
    item.sample(0)
    item.value, item.times = 50, 5
    item.sample(10_000)
    header = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
    body = json_of(answer(node, RequestCode.VIEW_BROKER_STATS_DATA, header))
    assert body["statsMinute"] == {"sum": 50, "tps": 5.0, "avgpt": 10.0}
    assert body["statsHour"] == body["statsDay"] == {"sum": 0, "tps": 0.0, "avgpt": 0.0}
    reply = answer(node, RequestCode.VIEW_BROKER_STATS_DATA, {**header, "statsKey": "U"})
    assert (reply.code, reply.remark) == (1, "The stats <TOPIC_PUT_NUMS> <U> not exist")


def test_cleaning() -> None:
    node = FakeNode()
    assert answer(node, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert not node.fake.retention.by_hand
    assert answer(node, RequestCode.DELETE_EXPIRED_COMMITLOG).code == 0
    assert node.fake.retention.by_hand
    assert answer(node, RequestCode.CLEAN_UNUSED_TOPIC).code == 0
    assert node.fake.asked == [("clean_unused", set(node.topics.table))]
