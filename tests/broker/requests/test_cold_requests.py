"""Requests that only read wait for the device in another thread, and answer as if all was there."""

import json
from collections.abc import Callable

import pytest
from sim.kernel.disk import SimFile
from tests.broker.become import become
from tests.broker.broker_harness import WALL, BrokerHarness, Client, send

from epochmq.broker.requests import cold_requests
from epochmq.broker.requests.request_routing import READS_MESSAGES
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
    in_steps = {Code.GET_BROKER_CONSUME_STATS}
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
