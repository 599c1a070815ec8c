"""Requests that only read wait for the device in another thread, and answer as if all was there."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from sim.kernel.disk import SimFile
from tests.broker.become import become
from tests.broker.broker_harness import WALL, BrokerHarness, Client, send

from epochmq.broker.requests import cold_requests
from epochmq.broker.requests.request_routing import READS_MESSAGES
from epochmq.broker.requests.request_table import READS_FIRST
from epochmq.broker.serving.roles import Role
from epochmq.store.cold_reads import WAITING_MAX
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

G = "G"


def command(code: Code, **fields: object) -> Command:
    return Command(code, ext={name: str(value) for name, value in fields.items()})


def filled() -> tuple[BrokerHarness, Client]:
    """Messages in two queues, of which a group has consumed some, in several log files."""
    harness = BrokerHarness()
    harness.topic("T", 2)
    client = harness.client()
    for number in range(60):
        harness.clock.step(10)
        client.put(send(b"%04d" % number * 50, queue_id=number % 2))
        harness.turn()
    body = json.dumps({"groupName": G}).encode()
    client.put(Command(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    for queue_id in range(2):
        client.put(
            command(
                Code.UPDATE_CONSUMER_OFFSET,
                consumerGroup=G, topic="T", queueId=queue_id, commitOffset=7,
            )
        )  # fmt: skip
    harness.turn()
    assert {answer.code for answer in client.take()} == {0}
    return harness, client


def place_of(harness: BrokerHarness, offset: int) -> int:
    ((at, _size, _tags),) = harness.store.units("T", 1, offset, 1)
    return at


REQUESTS: dict[Code, Callable[[BrokerHarness], Command]] = {
    Code.VIEW_MESSAGE_BY_ID: lambda harness: command(
        Code.VIEW_MESSAGE_BY_ID, offset=place_of(harness, 3)
    ),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: lambda _: command(
        Code.SEARCH_OFFSET_BY_TIMESTAMP, topic="T", queueId=1, timestamp=WALL + 300
    ),
    Code.GET_EARLIEST_MSG_STORETIME: lambda _: command(
        Code.GET_EARLIEST_MSG_STORETIME, topic="T", queueId=1
    ),
    Code.QUERY_CONSUME_QUEUE: lambda _: command(
        Code.QUERY_CONSUME_QUEUE, topic="T", queueId=1, index=2, count=9
    ),
    Code.LOG_READ: lambda harness: command(
        Code.LOG_READ, fromOffset=harness.store.pointers.start, maxBytes=2000
    ),
    Code.PEEK_MESSAGE: lambda _: command(
        Code.PEEK_MESSAGE, topic="T", consumerGroup=G, queueId=1, maxMsgNums=5
    ),
    Code.GET_TOPIC_STATS_INFO: lambda _: command(Code.GET_TOPIC_STATS_INFO, topic="T"),
    Code.GET_CONSUME_STATS: lambda _: command(Code.GET_CONSUME_STATS, consumerGroup=G, topic="T"),
    Code.GET_BROKER_CONSUME_STATS: lambda _: command(
        Code.GET_BROKER_CONSUME_STATS, isOrder="false"
    ),
    Code.QUERY_CONSUME_TIME_SPAN: lambda _: command(
        Code.QUERY_CONSUME_TIME_SPAN, topic="T", group=G
    ),
    Code.BULK_READ: lambda _: command(Code.BULK_READ, topic="T", queueId=1, offset=2),
    Code.GET_BROKER_RUNTIME_INFO: lambda _: command(Code.GET_BROKER_RUNTIME_INFO),
}


def test_every_code_is_examined() -> None:
    in_controller_mode = {Code.EPOCH_OFFSETS}  # reads as SEARCH_OFFSET_BY_TIMESTAMP
    in_steps = {Code.GET_BROKER_CONSUME_STATS, Code.GET_CONSUME_STATS}
    assert REQUESTS.keys() | in_controller_mode == READS_MESSAGES | in_steps


def answer_of(harness: BrokerHarness, client: Client, asked: Command) -> tuple[int, object, object]:
    """Return the answer without what differs between two requests."""
    client.put(asked)
    harness.turn()
    for _ in range(20):
        if not harness.held_reads:
            break
        assert client.take() == []
        harness.read_device()
    (answer,) = client.take()
    body: object = bytes(answer.body)
    if asked.code == Code.GET_BROKER_RUNTIME_INFO:
        body = json.loads(answer.body)["table"]["earliestMessageTimeStamp"]
    return answer.code, answer.ext, body


@pytest.mark.parametrize("code", REQUESTS, ids=lambda code: code.name)
def test_the_answer_is_the_same_and_the_loop_does_not_wait(code: Code) -> None:
    harness, client = filled()
    make = REQUESTS[code]
    expected = answer_of(harness, client, make(harness))
    assert expected[0] == 0
    harness.evict()
    client.put(make(harness))
    harness.turn()
    assert client.take() == []
    assert harness.held_reads
    harness.read_device()
    harness.evict()
    assert answer_of(harness, harness.client(), make(harness)) == expected


# Requests that change something, too -----------------------------------------------------------

JSON = {"clientID": "member", "producerDataSet": []}


def joined(harness: BrokerHarness) -> Client:
    """A member of the group."""
    group = {"groupName": G, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    member = harness.client()
    body = json.dumps({**JSON, "consumerDataSet": [group]}).encode()
    member.put(Command(Code.HEART_BEAT, body=body, version=401))
    harness.turn()
    member.take()
    return member


def message_id(harness: BrokerHarness) -> str:
    return harness.stored("T", 1)[3].offset_msg_id


CHANGES: dict[Code, Callable[[BrokerHarness], Command]] = {
    Code.CONSUMER_SEND_MSG_BACK: lambda harness: command(
        Code.CONSUMER_SEND_MSG_BACK, offset=place_of(harness, 3), group=G, delayLevel=2
    ),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: lambda _: command(
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        topic="T", group=G, timestamp=WALL + 100, isForce="true",
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: lambda harness: command(
        Code.CONSUME_MESSAGE_DIRECTLY,
        consumerGroup=G, clientId="member", msgId=message_id(harness), brokerName="b",
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: lambda harness: command(
        Code.RESUME_CHECK_HALF_MESSAGE, topic="T", msgId=message_id(harness)
    ),
}  # fmt: skip
"""RESUME_CHECK_HALF_MESSAGE reads a message that is not one of those, and refuses it."""


def test_every_code_that_reads_first_is_examined() -> None:
    assert CHANGES.keys() == READS_FIRST.keys()


@pytest.mark.parametrize("server_side", [True, False])
@pytest.mark.parametrize("code", CHANGES, ids=lambda code: code.name)
def test_a_change_is_made_once_after_its_messages_were_read(code: Code, server_side: bool) -> None:
    results = []
    for cold in (False, True):
        harness, client = filled()
        options = harness.node.options
        harness.node.options = replace(options, use_server_side_reset_offset=server_side)
        member = joined(harness)
        before = harness.store.pointers.appended
        asked = CHANGES[code](harness)
        if cold:
            harness.evict()
        client.put(asked)
        harness.turn()
        if cold:
            assert client.take() == member.take() == []
            assert harness.store.pointers.appended == before
            assert not harness.node.offsets.has_resets
            while harness.held_reads:
                assert client.take() == []
                harness.read_device()
        results.append(
            (
                [(answer.code, answer.remark, answer.ext, answer.body) for answer in client.take()],
                [(each.code, each.body) for each in member.take()],
                harness.store.pointers.appended - before,
                harness.node.offsets.has_resets,
            )
        )
    warm, cold_result = results
    assert warm == cold_result
    assert [len(warm[0]), len(warm[1])] in ([1, 0], [0, 1], [1, 1])


def test_the_reset_of_a_group_without_offsets_does_not_wait_in_the_loop() -> None:
    harness, client = filled()
    body = json.dumps({"groupName": "new"}).encode()
    client.ask(Command(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    harness.evict()
    asked = CHANGES[Code.INVOKE_BROKER_TO_RESET_OFFSET](harness)
    assert asked.ext is not None
    asked.ext["group"] = "new"
    client.put(asked)
    harness.turn()
    assert client.take() == []
    while harness.held_reads:
        harness.read_device()
    assert [answer.code for answer in client.take()] == [0]


def test_a_change_whose_client_left_meanwhile_is_not_made() -> None:
    harness, client = filled()
    harness.evict()
    before = harness.store.pointers.appended
    client.put(CHANGES[Code.CONSUMER_SEND_MSG_BACK](harness))
    harness.turn()
    assert len(harness.held_reads) == 1
    client.session.lost()
    harness.read_device()
    assert harness.store.pointers.appended == before


def test_a_change_of_a_broker_that_lost_its_role_meanwhile_is_refused() -> None:
    harness, client = filled()
    harness.evict()
    client.put(CHANGES[Code.INVOKE_BROKER_TO_RESET_OFFSET](harness))
    harness.turn()
    become(harness.node, Role.FENCED)
    while harness.held_reads:
        harness.read_device()
    assert [answer.code for answer in client.take()] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert not harness.node.offsets.has_resets


@pytest.mark.parametrize(
    "ext",
    [{}, {"offset": "x", "group": G, "delayLevel": "1"}, {"msgId": "none"}, {"topic": "U"}],
    ids=str,
)
@pytest.mark.parametrize("code", CHANGES, ids=lambda code: code.name)
def test_a_wrong_request_is_answered_as_before(code: Code, ext: dict[str, str]) -> None:
    harness, client = filled()
    harness.evict()
    assert client.ask(Command(code, ext=ext)).code != 0


@pytest.mark.parametrize("what", ["closed", "fenced"])
def test_what_happens_while_the_device_is_read(what: str) -> None:
    harness, client = filled()
    harness.evict()
    client.put(REQUESTS[Code.GET_EARLIEST_MSG_STORETIME](harness))
    harness.turn()
    assert len(harness.held_reads) == 1
    if what == "closed":
        client.session.lost()
    elif what == "fenced":
        become(harness.node, Role.FENCED)
    harness.read_device()
    codes = [answer.code for answer in client.take()]
    assert codes == {"closed": [], "fenced": [ResponseCode.SERVICE_NOT_AVAILABLE]}[what]


def test_a_request_ends_although_messages_leave_the_memory_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cold_requests, "EXECUTIONS_MAX", 3)
    monkeypatch.setattr(SimFile, "is_in_memory", lambda *_: False)
    harness, client = filled()
    client.put(REQUESTS[Code.GET_EARLIEST_MSG_STORETIME](harness))
    for _ in range(2):
        harness.turn()
        assert client.take() == []
        harness.read_device()
    (answer,) = client.take()
    assert answer.code == 0
    assert not harness.held_reads


def test_with_many_waiting_requests_the_next_one_is_read_in_the_loop() -> None:
    harness, client = filled()
    harness.evict()
    asked = [REQUESTS[Code.GET_EARLIEST_MSG_STORETIME](harness) for _ in range(WAITING_MAX + 1)]
    client.put(*asked)
    harness.turn()
    assert len(client.take()) == 1
    assert len(harness.held_reads) == WAITING_MAX
    harness.read_device()
    assert len(client.take()) == WAITING_MAX
