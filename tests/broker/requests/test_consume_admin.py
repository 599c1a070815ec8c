"""Which group reads which topic, and copying progress."""

from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, json_of

from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.model.group import build
from epochmq.wire.codes import RequestCode

CLONE = RequestCode.CLONE_GROUP_OFFSET


def with_offsets() -> FakeNode:
    node = FakeNode()
    for topic in ("T", "U"):
        node.topics.ensure(topic, 2, 6, WALL)
        node.offsets.commit("g", topic, 0, 7)
    node.offsets.commit("g", "GONE", 0, 7)
    return node


def join(node: FakeNode, group: str, topic: str) -> None:
    member = ClientMember(FakeSession(), "c", "JAVA", 401, 0)
    node.consumers.heartbeat(group, member, Manner(), [build(topic, "a")])


def test_groups_of_a_topic_and_topics_of_a_group() -> None:
    node = with_offsets()
    join(node, "h", "T")
    body = json_of(answer(node, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"}))
    assert body == {"groupList": ["g", "h"]}
    body = json_of(answer(node, RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"}))
    assert body == {"topicList": ["GONE", "T", "U"], "brokerAddr": "127.0.0.1:10911"}


def test_subscriptions() -> None:
    node = with_offsets()
    join(node, "h", "T")
    code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    body = json_of(answer(node, code, {"group": "h", "topic": "T"}))
    assert body["subscriptionData"]["tagsSet"] == ["a"]
    assert json_of(answer(node, code, {"group": "h"})) == {"group": "h", "topic": ""}


def test_clone() -> None:
    node = with_offsets()
    assert answer(node, CLONE, {"srcGroup": "g", "destGroup": "h"}).code == 0
    assert node.offsets.topics_of("h") == {"T", "U"}
    assert "h" in node.groups
    assert answer(node, CLONE, {"srcGroup": "g", "destGroup": "i", "topic": "T"}).code == 0
    assert node.offsets.topics_of("i") == {"T"}
    assert answer(node, CLONE, {"srcGroup": "g", "destGroup": "a b"}).code == 1


def test_clone_with_unknown_groups() -> None:
    """From one there is nothing to copy, which is no error, as in Java 5.3.3; to one, 26."""
    node = with_offsets()
    before = dict(node.offsets.table)
    assert answer(node, CLONE, {"srcGroup": "nobody", "destGroup": "g", "topic": "T"}).code == 0
    node.groups.auto_create = False
    assert answer(node, CLONE, {"srcGroup": "g", "destGroup": "new"}).code == 26
    assert node.offsets.table == before


def test_clone_of_an_online_group() -> None:
    node = with_offsets()
    join(node, "g", "T")
    answer(node, CLONE, {"srcGroup": "g", "destGroup": "h"})
    assert node.offsets.topics_of("h") == {"T"}
    answer(node, CLONE, {"srcGroup": "g", "destGroup": "h", "offline": "true"})
    assert node.offsets.topics_of("h") == {"T", "U"}


def test_corrections() -> None:
    node = with_offsets()
    node.offsets.commit("h", "T", 0, 5)
    node.offsets.commit("i", "T", 0, 1)
    node.offsets.commit("i", "T", 1, 4)
    code = RequestCode.QUERY_CORRECTION_OFFSET
    header = {"compareGroup": "h", "topic": "T", "filterGroups": "i,"}
    assert json_of(answer(node, code, header)) == {"correctionOffsets": {"0": 5}}
    header = {"compareGroup": "i", "topic": "T", "filterGroups": "i"}
    body = json_of(answer(node, code, header))
    assert body == {"correctionOffsets": {"0": 2**63 - 1}}
