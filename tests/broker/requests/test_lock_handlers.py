"""Queue locks over the wire, and votes that members of the group ask for."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from tests.broker.become import become
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import answer, call, ext_of, json_of

from epochmq.broker.serving.roles import Role
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.group_bodies import LockBatchRequest
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Reply

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


ASKED = {"lockAsker": "1", "lockNumber": "7", "totalReplicas": "3"}


def strict(replicas: int = 3) -> FakeNode:
    node = with_topic()
    node.options = dataclasses.replace(
        node.options, lock_in_strict_mode=True, total_replicas=replicas
    )
    return node


def only(client: str, *numbers: int) -> dict[str, object]:
    return {**body(client, *numbers), "onlyThisBroker": True}


@pytest.mark.parametrize("role", [Role.MASTER, Role.ACTING_MASTER, Role.SLAVE])
def test_any_member_votes(role: Role) -> None:
    node = strict()
    become(node, role)
    reply = answer(node, LOCK, ASKED, only("one", 0))
    assert [row["queueId"] for row in json_of(reply)["lockOKMQSet"]] == [0]
    assert ext_of(reply) == ASKED
    assert node.disk.read_file("config/queueLocks.json")
    assert answer(node, UNLOCK, {**ASKED, "lockUndo": "true"}, only("one", 0)).code == 0
    assert len(node.locks) == 0


def test_a_java_member_is_given_votes_too() -> None:
    node = strict()
    assert json_of(answer(node, LOCK, None, only("one", 0)))["lockOKMQSet"]
    assert json_of(answer(node, LOCK, ASKED, only("two", 0))) == {"lockOKMQSet": []}
    assert answer(node, UNLOCK, None, only("one", 0)).code == 0
    assert len(node.locks) == 0


def test_slaves_lock_for_no_client() -> None:
    node = with_topic()
    become(node, Role.SLAVE)
    assert answer(node, LOCK, None, body("one", 0)).code == 1
    become(node, Role.ACTING_MASTER)
    assert held(node, "one", 0) == [0]


def test_alone_a_strict_broker_decides_by_itself_and_remembers() -> None:
    node = strict(replicas=1)
    assert held(node, "one", 0) == [0]
    assert node.disk.read_file("config/queueLocks.json")


class Votes:
    """Takes note of what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def lock(
        self,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        done: Callable[[Reply], None],
    ) -> None:
        self.asked.append([queue.queue_id for queue in queues])

    def unlock(self, wanted: LockBatchRequest) -> None:
        self.asked.append(wanted.client_id)


def test_in_strict_mode_the_members_are_asked() -> None:
    node, votes = strict(), Votes()
    node.use_lock_votes(votes)
    wanted = {**body("one", 0, 1), "mqSet": [queue(0), queue(1, "U")]}
    assert call(node, LOCK, None, wanted) is HELD
    assert answer(node, UNLOCK, None, body("one", 0)).code == 0
    assert votes.asked == [[0], "one"]
