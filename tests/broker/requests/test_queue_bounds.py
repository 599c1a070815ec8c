"""Bounds and times of queues."""

import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import answer, ext_of

from epochmq.model.topic import TopicConfig
from epochmq.wire.codes import RequestCode

QUEUE = {"topic": "T", "queueId": "0"}


def with_messages() -> FakeNode:
    node = FakeNode()
    node.topics.ensure("T", 4, 6, WALL)
    node.fake.first["T", 0] = 5
    node.fake.put("T", 0, b"a", b"b", b"c")
    return node


def test_max_and_min() -> None:
    node = with_messages()
    assert ext_of(answer(node, RequestCode.GET_MAX_OFFSET, QUEUE)) == {"offset": "8"}
    assert ext_of(answer(node, RequestCode.GET_MIN_OFFSET, QUEUE)) == {"offset": "5"}
    empty = {**QUEUE, "queueId": "1"}
    assert ext_of(answer(node, RequestCode.GET_MAX_OFFSET, empty)) == {"offset": "0"}
    assert ext_of(answer(node, RequestCode.GET_MIN_OFFSET, empty)) == {"offset": "0"}


def test_unknown_topics() -> None:
    node = FakeNode()
    assert ext_of(answer(node, RequestCode.GET_MAX_OFFSET, QUEUE)) == {"offset": "0"}
    assert ext_of(answer(node, RequestCode.GET_MIN_OFFSET, QUEUE)) == {"offset": "-1"}
    earliest = answer(node, RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE)
    assert ext_of(earliest) == {"timestamp": "-1"}


def test_earliest_time() -> None:
    node = with_messages()
    reply = answer(node, RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE)
    assert ext_of(reply) == {"timestamp": str(WALL + 5000)}


@pytest.mark.parametrize(
    ("boundary", "upper"),
    [({}, False), ({"boundaryType": "LOWER"}, False), ({"boundaryType": "upper"}, True)],
)
def test_search(boundary: dict[str, str], upper: bool) -> None:
    node = with_messages()
    header = {**QUEUE, "timestamp": str(WALL + 6000), **boundary}
    reply = answer(node, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    assert ext_of(reply) == {"offset": "6"}
    assert node.fake.asked == [("by_time", "T", 0, WALL + 6000, upper)]


def test_search_by_an_unheard_boundary() -> None:
    header = {**QUEUE, "timestamp": "1", "boundaryType": "MIDDLE"}
    assert answer(with_messages(), RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header).code == 1


def test_the_first_offset_of_an_empty_batch_queue_is_none() -> None:
    """As RocketMQ answers; an ordinary queue that is empty begins at 0."""
    node = FakeNode()
    node.topics.ensure("Plain", 1, 6, WALL)
    batch = TopicConfig("Batch", 1, 1, attributes={"queue.type": "BatchCQ"})
    node.topics.put(batch, WALL)
    for topic, offset in (("Plain", "0"), ("Batch", "-1")):
        reply = answer(node, RequestCode.GET_MIN_OFFSET, {"topic": topic, "queueId": "0"})
        assert ext_of(reply)["offset"] == offset
