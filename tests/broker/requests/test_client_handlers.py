"""Lists of who is connected."""

from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, json_of

from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.model.group import build
from epochmq.wire.codes import RequestCode


def with_consumer() -> FakeNode:
    node = FakeNode()
    member = ClientMember(FakeSession(1, peer="10.0.0.9:40000"), "me@1", "GO", 401, 0, WALL)
    node.consumers.heartbeat("g", member, Manner(), [build("T", "a")])
    node.producers.heartbeat("p", member)
    return node


def test_consumer_list() -> None:
    node = with_consumer()
    header = {"consumerGroup": "g"}
    body = json_of(answer(node, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header))
    assert body == {"consumerIdList": ["me@1"]}
    reply = answer(node, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "h"})
    assert (reply.code, reply.remark) == (1, "no consumer for this group, h")
    assert answer(node, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {}).code == 1


def test_consumer_connections() -> None:
    node = with_consumer()
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    body = json_of(answer(node, code, {"consumerGroup": "g"}))
    assert body["connectionSet"] == [
        {
            "clientId": "me@1",
            "clientAddr": "10.0.0.9:40000",
            "language": "GO",
            "version": 401,
        }
    ]
    assert body["messageModel"] == "CLUSTERING"
    assert body["consumeType"] == "CONSUME_PASSIVELY"
    assert body["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    assert body["subscriptionTable"]["T"]["tagsSet"] == ["a"]
    assert answer(node, code, {"consumerGroup": "h"}).code == 206


def test_producer_connections() -> None:
    node = with_consumer()
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    body = json_of(answer(node, code, {"producerGroup": "p"}))
    assert [row["clientId"] for row in body["connectionSet"]] == ["me@1"]
    assert answer(node, code, {"producerGroup": "q"}).code == 1


def test_all_producers() -> None:
    node = with_consumer()
    body = json_of(answer(node, RequestCode.GET_ALL_PRODUCER_INFO))
    assert body == {
        "data": {
            "p": [
                {
                    "clientId": "me@1",
                    "remoteIP": "10.0.0.9:40000",
                    "language": "GO",
                    "version": 401,
                    "lastUpdateTimestamp": WALL,
                }
            ]
        }
    }
