"""Consumer offsets over the wire."""

import dataclasses

import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, ext_of, json_of

from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.model.group import build
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import RequestCode

QUERY = RequestCode.QUERY_CONSUMER_OFFSET
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET
ASK = {"consumerGroup": "g", "topic": "T", "queueId": "0"}


def with_topic() -> FakeNode:
    node = FakeNode()
    node.topics.ensure("T", 4, 6, WALL)
    node.groups.find("g", WALL)
    return node


def asked(node: FakeNode, **more: str) -> int | str:
    """The offset answered, or the code."""
    reply = answer(node, QUERY, {**ASK, **more})
    return int(ext_of(reply)["offset"]) if reply.code == 0 else f"code {reply.code}"


def test_committed_offsets_are_answered() -> None:
    node = with_topic()
    assert answer(node, UPDATE, {**ASK, "commitOffset": "17"}).code == 0
    assert asked(node) == 17
    assert asked(node, setZeroIfNotFound="false") == 17


@pytest.mark.parametrize("strict", [True, False])
def test_a_consumer_whose_lock_went_to_another_puts_nothing_back(strict: bool) -> None:
    """INV-31: one that was paused for longer than its lock lived."""
    node = with_topic()
    node.options = dataclasses.replace(node.options, lock_in_strict_mode=strict)
    sessions = {name: FakeSession(n) for n, name in enumerate(("paused", "next"), 1)}
    for name, session in sessions.items():
        member = ClientMember(session, name, "JAVA", 401, 0, WALL)
        node.consumers.heartbeat("g", member, Manner(), [build("T", "*")])

    def commit(name: str, offset: int) -> int:
        header = {**ASK, "commitOffset": str(offset)}
        return answer(node, UPDATE, header, session=sessions[name], now=70_000).code

    queue = MessageQueue("T", node.options.broker_name, 0)
    node.locks.lock("g", [queue], "paused", 0)
    assert commit("paused", 3) == 0  # nobody else has it
    assert node.locks.lock("g", [queue], "next", 70_000)
    assert commit("next", 9) == 0
    assert commit("paused", 4) == (1 if strict else 0)
    assert asked(node) == (9 if strict else 4)
    assert answer(node, UPDATE, {**ASK, "commitOffset": "2"}, session=FakeSession(7)).code == 0


def test_a_young_queue_starts_at_its_beginning() -> None:
    node = with_topic()
    assert asked(node) == 0
    node.fake.put("T", 0, b"one", b"two")
    assert asked(node) == 0
    assert asked(node, setZeroIfNotFound="true") == 0
    # Clients of 5.0.0 decide by themselves.
    assert asked(node, setZeroIfNotFound="false") == "code 22"


def test_a_queue_that_lost_its_beginning_leaves_it_to_the_client() -> None:
    node = with_topic()
    node.fake.first["T", 0] = 5
    node.fake.put("T", 0, b"one")
    assert asked(node) == "code 22"


def test_a_beginning_far_back_leaves_it_to_the_client() -> None:
    node = with_topic()
    node.fake.put("T", 0, b"one", b"x" * 1000)
    assert asked(node) == 0
    node.options = dataclasses.replace(node.options, memory_window_bytes=1000)
    assert asked(node) == "code 22"


def test_a_beginning_that_cannot_be_read_leaves_it_to_the_client() -> None:
    node = with_topic()
    node.fake.put("T", 0, b"one")
    node.fake.unreadable = True
    assert asked(node) == "code 22"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "U"}, 17),
        ({"queueId": "-1"}, 1),
        ({"queueId": "100000"}, 1),
        ({"commitOffset": "-1"}, 1),
        ({"commitOffset": "x"}, 1),
    ],
)
def test_commits_that_are_refused(change: dict[str, str], code: int) -> None:
    node = with_topic()
    assert answer(node, UPDATE, {**ASK, "commitOffset": "1", **change}).code == code
    assert node.offsets.table == {}


def test_commits_of_unknown_groups() -> None:
    node = with_topic()
    commit = {**ASK, "consumerGroup": "new", "commitOffset": "1"}
    node.groups.auto_create = False
    assert answer(node, UPDATE, commit).code == 26
    node.groups.auto_create = True
    assert answer(node, UPDATE, commit).code == 0
    assert "new" in node.groups


def test_a_pending_reset_wins_over_commits() -> None:
    node = with_topic()
    node.offsets.reset("g", "T", 0, 3, WALL)
    reply = answer(node, UPDATE, {**ASK, "commitOffset": "9"})
    assert (reply.code, reply.remark) == (0, "Offset has been previously reset")
    assert asked(node) == 3
    node.options = dataclasses.replace(node.options, use_server_side_reset_offset=False)
    answer(node, UPDATE, {**ASK, "commitOffset": "9"})
    assert node.offsets.row("g", "T") == {0: 9}


def test_tables_for_slaves() -> None:
    node = with_topic()
    node.offsets.commit("g", "T", 0, 5)
    body = json_of(answer(node, RequestCode.GET_ALL_CONSUMER_OFFSET))
    assert body["offsetTable"] == {"T@g": {"0": 5}}
    body = json_of(answer(node, RequestCode.GET_ALL_DELAY_OFFSET))
    assert set(body) == {"dataVersion", "offsetTable"}
