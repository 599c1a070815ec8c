"""Queue locks over the wire."""

import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.handlers.helpers import answer, json_of

from epochmq.wire.codes import RequestCode

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


def queue(number: int, topic: str = "T") -> dict[str, object]:
    return {"brokerName": "b", "queueId": number, "topic": topic}


def body(client: str, *numbers: int, group: str = "g") -> dict[str, object]:
    return {
        "clientId": client,
        "consumerGroup": group,
        "mqSet": [queue(number) for number in numbers],
        "onlyThisBroker": False,
    }


def with_topic() -> FakeNode:
    node = FakeNode()
    node.topics.ensure("T", 4, 6, WALL)
    return node


def held(node: FakeNode, client: str, *numbers: int, now: int = 0) -> list[int]:
    found = json_of(answer(node, LOCK, None, body(client, *numbers), now=now))
    return [row["queueId"] for row in found["lockOKMQSet"]]


def test_lock_and_unlock() -> None:
    node = with_topic()
    assert held(node, "one", 0, 1) == [0, 1]
    assert held(node, "two", 1, 2, now=10) == [2]
    assert answer(node, UNLOCK, None, body("one", 1)).code == 0
    assert held(node, "two", 0, 1, 2, now=10) == [1, 2]
    assert held(node, "two", 0, now=60_001) == [0]


def test_unknown_topics_are_not_locked() -> None:
    node = with_topic()
    wanted = {**body("one"), "mqSet": [queue(0, "U")]}
    assert json_of(answer(node, LOCK, None, wanted)) == {"lockOKMQSet": []}


@pytest.mark.parametrize("code", [LOCK, UNLOCK])
def test_refusals(code: int) -> None:
    node = with_topic()
    for bad in (body("", 0), body("x" * 5000, 0), body("one", 0, group="a b"), {}):
        assert answer(node, code, None, bad).code == 1
