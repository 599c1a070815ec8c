"""Topic administration."""

import dataclasses

import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import answer, json_of

from epochmq.model.topic import TopicConfig
from epochmq.wire.codes import RequestCode

UPDATE = RequestCode.UPDATE_AND_CREATE_TOPIC
# As mqadmin 4.9 sends it; 5.x adds attributes and force.
WANTED = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": "8",
    "writeQueueNums": "8",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


def test_create_and_change() -> None:
    node = FakeNode()
    assert answer(node, UPDATE, WANTED).code == 0
    assert [config.topic_name for config in node.topics.pop_changed(lambda name: False)] == ["T"]
    header = {**WANTED, "writeQueueNums": "4", "order": "true", "attributes": "+message.type=FIFO"}
    assert answer(node, UPDATE, header).code == 0
    config = node.topics.table["T"]
    assert (config.read_queue_nums, config.write_queue_nums, config.order) == (8, 4, True)
    assert config.attributes == {"message.type": "FIFO"}


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "../../up"},
        {"topic": ""},
        {"topic": "x" * 128},
        {"topic": "TBW102"},
        {"topic": "rmq_sys_x"},
        {"topic": "DefaultCluster"},
        {"readQueueNums": "0"},
        {"writeQueueNums": "9999999"},
        {"writeQueueNums": "many"},
        {"perm": "99"},
        {"topicFilterType": "NO_TAG"},
        {"attributes": "message.type=FIFO"},
        {"attributes": "+message.type=MIXED"},
        {"attributes": "-message.type"},
    ],
)
def test_refusals(change: dict[str, str]) -> None:
    node = FakeNode()
    before = dict(node.topics.table)
    assert answer(node, UPDATE, {**WANTED, **change}).code == 1
    assert node.topics.table == before
    assert not node.topics.dirty


def test_what_options_allow() -> None:
    node = FakeNode()
    node.options = dataclasses.replace(
        node.options,
        enable_mixed_message_type=True,
        validate_system_topic_when_update_topic=False,
    )
    assert answer(node, UPDATE, {**WANTED, "attributes": "+message.type=MIXED"}).code == 0
    assert answer(node, UPDATE, {**WANTED, "topic": "BenchmarkTest"}).code == 0


def test_lists_are_all_or_nothing() -> None:
    node = FakeNode()
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    good = {"topicName": "A", "attributes": {"+message.type": "FIFO"}}
    assert answer(node, code, None, {"topicConfigList": [good, {"topicName": "b c"}]}).code == 1
    assert "A" not in node.topics
    assert answer(node, code, None, {"topicConfigList": [good, {"topicName": "B"}]}).code == 0
    assert node.topics.table["A"].attributes == {"message.type": "FIFO"}
    assert "B" in node.topics


def test_get_one_and_all() -> None:
    node = FakeNode()
    answer(node, UPDATE, WANTED)
    body = json_of(answer(node, RequestCode.GET_TOPIC_CONFIG, {"topic": "T"}))
    assert body["topicName"] == "T"
    assert answer(node, RequestCode.GET_TOPIC_CONFIG, {"topic": "U"}).code == 17
    body = json_of(answer(node, RequestCode.GET_ALL_TOPIC_CONFIG))
    assert body["topicConfigTable"]["T"]["writeQueueNums"] == 8
    assert body["dataVersion"]["counter"] == 1
    assert set(body) >= {"topicQueueMappingInfoMap", "mappingDataVersion"}


def test_delete() -> None:
    node = FakeNode()
    for topic in ("T", "%RETRY%g_T", "%RETRY%g+T", "%RETRY%g"):
        # Only POP itself may use a plus sign.
        node.topics.table[topic] = TopicConfig(topic_name=topic)
        node.offsets.commit("g", topic, 0, 1)
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    assert answer(node, code, {"topic": "T"}).code == 0
    assert "T" not in node.topics
    assert set(node.offsets.table) == {"%RETRY%g@g"}
    deleted = [call[1] for call in node.fake.asked]
    assert deleted == ["T", "%RETRY%g_T", "%RETRY%g+T"]
    assert answer(node, code, {"topic": "T"}).code == 0
    for bad in ("TBW102", "../x", ""):
        assert answer(node, code, {"topic": bad}).code == 1


def test_delete_may_leave_retry_topics() -> None:
    node = FakeNode()
    node.options = dataclasses.replace(node.options, clear_retry_topic_when_delete_topic=False)
    for topic in ("T", "%RETRY%g_T"):
        node.topics.ensure(topic, 1, 6, WALL)
        node.offsets.commit("g", topic, 0, 1)
    answer(node, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
    assert "%RETRY%g_T" in node.topics
