"""Moving a group's offsets."""

import dataclasses

import msgspec
import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, json_of

from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import queue_key
from epochmq.wire.codes import RequestCode

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET


def key(queue_id: int) -> str:
    return queue_key(MessageQueue("T", "b", queue_id))


def with_messages(*, at_broker: bool = True) -> FakeNode:
    node = FakeNode()
    node.options = dataclasses.replace(node.options, use_server_side_reset_offset=at_broker)
    node.topics.ensure("T", 2, 6, WALL)
    node.groups.find("g", WALL)
    for queue_id in range(2):
        node.fake.put("T", queue_id, *[b"x"] * 5)
        node.offsets.commit("g", "T", queue_id, 3)
    return node


def header(**more: object) -> dict[str, str]:
    fields = {"topic": "T", "group": "g", "timestamp": WALL, "isForce": "true", **more}
    return {name: str(value) for name, value in fields.items()}


def test_all_queues_to_a_time() -> None:
    node = with_messages()
    body = json_of(answer(node, RESET, header(timestamp=WALL + 1000)))
    assert body == {"offsetTable": {key(0): 1, key(1): 1}}
    assert node.offsets.pop_reset("g", "T", 0) == 1
    assert node.offsets.get("g", "T", 0) == 1


def test_all_queues_to_the_end() -> None:
    node = with_messages()
    body = json_of(answer(node, RESET, header(timestamp=-1, queueId=-1, offset=-1)))
    assert body == {"offsetTable": {key(0): 5, key(1): 5}}


def test_one_queue() -> None:
    node = with_messages()
    body = json_of(answer(node, RESET, header(queueId=1, offset=2)))
    assert body == {"offsetTable": {key(1): 2}}
    assert not node.offsets.has_reset("g", "T", 0)
    body = json_of(answer(node, RESET, header(queueId=0, timestamp=WALL + 4000)))
    assert body == {"offsetTable": {key(0): 4}}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "U"}, 17),
        ({"group": "h"}, 26),
        ({"queueId": "1", "offset": "9"}, 1),
        ({"queueId": "5000"}, 1),
        ({"timestamp": "soon"}, 1),
    ],
)
def test_refusals(change: dict[str, str], code: int) -> None:
    node = with_messages()
    assert answer(node, RESET, {**header(), **change}).code == code
    assert not node.offsets.has_reset("g", "T", 1)


def join(node: FakeNode, number: int, language: str = "JAVA", version: int = 401) -> FakeSession:
    session = FakeSession(number)
    member = ClientMember(session, str(number), language, version, 0)
    node.consumers.heartbeat("g", member, Manner(), [], notify=False)
    return session


def test_clients_are_told_each_in_its_dialect() -> None:
    node = with_messages(at_broker=False)
    java, cpp = join(node, 1), join(node, 2, "CPP")
    body = json_of(answer(node, RESET, header(timestamp=WALL + 1000)))
    assert body == {"offsetTable": {key(0): 1, key(1): 1}}
    (told,) = java.told
    assert told.code == 220
    assert told.ext is not None
    assert (told.ext["topic"], told.ext["group"], told.ext["isForce"]) == ("T", "g", "true")
    assert msgspec.json.decode(told.body) == body
    (told,) = cpp.told
    rows = msgspec.json.decode(told.body)["offsetTable"]
    assert rows[0] == {"topic": "T", "brokerName": "b", "queueId": 0, "offset": 1}
    # The broker itself holds nothing then: the clients commit.
    assert node.offsets.get("g", "T", 0) == 3


def test_clients_go_forward_only_when_forced() -> None:
    node = with_messages(at_broker=False)
    join(node, 1)
    body = json_of(answer(node, RESET, header(timestamp=-1, isForce="false")))
    assert body == {"offsetTable": {key(0): 3, key(1): 3}}
    body = json_of(answer(node, RESET, header(timestamp=-1)))
    assert body == {"offsetTable": {key(0): 5, key(1): 5}}


def test_a_reset_is_refused_when_a_client_cannot_be_notified() -> None:
    node = with_messages(at_broker=False)
    assert answer(node, RESET, header()).code == 206
    assert answer(node, RESET, header(group="h")).code == 1
    good = join(node, 1)
    join(node, 2, version=27)
    assert answer(node, RESET, header()).code == 1
    assert good.told == []
