"""MessageQueue: order and JSON."""

import msgspec

from epochmq.model.topic import MessageQueue


def test_json_is_upstream_s() -> None:
    queue = MessageQueue("T", "b", 3)
    raw = b'{"topic":"T","brokerName":"b","queueId":3}'
    assert msgspec.json.encode(queue) == raw
    assert msgspec.json.decode(raw[:-1] + b',"more":1}', type=MessageQueue) == queue


def test_queues_are_ordered_by_topic_broker_and_number() -> None:
    wanted = [
        MessageQueue("A", "z", 9),
        MessageQueue("B", "a", 2),
        MessageQueue("B", "a", 10),
        MessageQueue("B", "b", 0),
    ]
    assert sorted([wanted[3], wanted[1], wanted[0], wanted[2]]) == wanted


def test_a_queue_is_a_key_and_prints_short() -> None:
    assert {MessageQueue("T", "b", 0): 1}[MessageQueue("T", "b", 0)] == 1
    assert str(MessageQueue("T", "b", 0)) == "T@b:0"
