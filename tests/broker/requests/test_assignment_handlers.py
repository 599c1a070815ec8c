"""Shares and modes over the wire."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.broker.fake_disk import FakeDisk
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, call, ext_of, json_of
from tests.broker.requests.test_client_heartbeat import beat

from epochmq.base.errors import DiskFull
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.consume.route_book import Waiter
from epochmq.broker.context.broker_context import BrokerPorts
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Command, Reply

QUERY, SET = RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE
ALL = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
ME = "10.0.0.9@1"
QUEUES = tuple(MessageQueue("T", name, n) for name in "ab" for n in range(2))


class Asker(FakeSession):
    """Keeps the answers it gets."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Reply] = []

    def answer(self, request: Command, reply: Reply) -> None:
        self.answers.append(reply)


def find_t(topic: str, waiter: Waiter) -> None:
    waiter(QUEUES if topic == "T" else None)


def find_any(topic: str, waiter: Waiter) -> None:
    waiter((MessageQueue(topic, "a", 0),))


def node_with(find: Callable[[str, Waiter], None] = find_t, **options: Any) -> FakeNode:
    """A broker with one member of group g, that knows the route of T."""
    ports = BrokerPorts(find_route=find)
    node = FakeNode(BrokerOptions(broker_name="a", broker_ip1="127.0.0.1", **options), ports)
    node.topics.ensure("T", 2, 6, WALL)
    assert answer(node, RequestCode.HEART_BEAT, None, beat()).code == 0
    return node


def query(node: FakeNode, **more: object) -> dict[str, Any]:
    body = {
        "clientId": ME,
        "consumerGroup": "g",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": "T",
        **more,
    }
    session = Asker()
    assert call(node, QUERY, None, body, session=session) is HELD
    (reply,) = session.answers
    found: dict[str, Any] = json_of(reply)
    return found


def shares(node: FakeNode, **more: object) -> list[tuple[str, int, str]]:
    return [
        (row["messageQueue"]["brokerName"], row["messageQueue"]["queueId"], row["mode"])
        for row in query(node, **more)["messageQueueAssignments"]
    ]


def mode(topic: str = "T", group: str = "g", mode: str = "POP", n: int = 0) -> dict[str, object]:
    return {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": n}


def test_shares_by_pull_until_an_operator_says_pop() -> None:
    node = node_with()
    assert shares(node) == [(name, n, "PULL") for name in "ab" for n in range(2)]
    assert answer(node, SET, None, mode()).code == 0
    assert shares(node) == [("a", -1, "POP"), ("b", -1, "POP")]


def test_what_the_broker_cannot_tell_has_no_list_at_all() -> None:
    node = node_with()
    for more in ({"topic": "U"}, {"consumerGroup": "h"}, {"strategyName": "X"}):
        assert query(node, **more) == {}


def test_broadcasting_and_no_balancing_give_all() -> None:
    assert len(shares(node_with(), messageModel="BROADCASTING", clientId="x")) == 4
    assert len(shares(node_with(server_load_balancer_enable=False), clientId="x")) == 4


def test_defaults_and_the_retry_topic() -> None:
    node = node_with(default_message_request_mode="POP", default_pop_share_queue_num=1)
    assert shares(node) == [("a", -1, "POP"), ("b", -1, "POP")]
    node = node_with(find_any, default_message_request_mode="POP", default_pop_share_queue_num=1)
    assert shares(node, topic="%RETRY%g") == [("a", 0, "PULL")]


def test_without_routes_nothing_is_told() -> None:
    node = FakeNode()
    assert query(node) == {}


@pytest.mark.parametrize(
    "more", [{"clientId": ""}, {"clientId": "x" * 5000}, {"topic": "a b"}, {"consumerGroup": ""}]
)
def test_bad_questions(more: dict[str, object]) -> None:
    body = {"clientId": ME, "consumerGroup": "g", "topic": "T", **more}
    assert answer(node_with(), QUERY, None, body).code == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (mode("U"), 17),
        (mode("%RETRY%g"), 16),
        (mode(mode="PUSH"), 1),
        ({"topic": "T"}, 1),
    ],
)
def test_bad_modes(body: dict[str, object], code: int) -> None:
    node = node_with()
    assert answer(node, SET, None, body).code == code
    assert len(node.request_modes) == 0


def test_a_group_that_is_not_there() -> None:
    node = node_with(auto_create_subscription_group=False)
    assert answer(node, SET, None, mode(group="h")).code == 26


def test_a_mode_is_saved_before_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_with()
    assert answer(node, SET, None, mode()).code == 0
    assert node.disk.read_file("config/messageRequestMode.json") is not None

    def full(*args: object, **more: object) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(FakeDisk, "write_file", full)
    reply = answer(node, SET, None, mode(n=5))
    assert reply.code == 1
    assert "no space left" in (reply.remark or "")


def test_all_for_replicas_and_nothing_when_nothing_is_new() -> None:
    node = node_with()
    answer(node, SET, None, mode(n=2))
    reply = answer(node, ALL)
    assert json_of(reply) == {"messageRequestModeMap": {"T": {"g": mode(n=2)}}}
    stamp = ext_of(reply)["stamp"]
    again = answer(node, ALL, {"sinceStamp": stamp})
    assert ext_of(again) == {"stamp": stamp, "unchanged": "true"}
    assert msgspec.json.encode(node.request_modes.content())
