"""How long requests took, whichever way the broker answers them."""

import pytest
from tests.broker.broker_harness import BrokerHarness, pull, send
from tests.broker.pop_harness import PopHarness, command, pop

from epochmq.broker.state.request_times import CreateKind, RequestKind
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

HOLD = 6


def times_of(harness: BrokerHarness) -> dict[RequestKind, tuple[int, float]]:
    """Return how many answers there were of each kind, and the sum of their times (ms)."""
    return {kind: (sum(f.counts), f.total) for kind, f in harness.node.request_times.items()}


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2])
@pytest.mark.parametrize("binary", [False, True])
def test_sends_count_once_each_by_their_own_code(code: int, binary: bool) -> None:
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.put(*[send(b"x", code=code, binary=binary) for _ in range(3)])
    harness.clock.step(7)
    harness.turn()
    assert times_of(harness) == {RequestKind(code, 0): (3, 21.0)}


def test_refused_sends_count_with_their_code() -> None:
    harness = BrokerHarness(auto_create_topic_enable=False)
    harness.topic("T")
    for command_ in (send(b"x", topic="none"), send(b"", topic="T"), send(b"x", queue_id=99)):
        assert harness.client().ask(command_).code != 0
    assert times_of(harness) == {
        RequestKind(Code.SEND_MESSAGE_V2, ResponseCode.TOPIC_NOT_EXIST): (1, 0.0),
        RequestKind(Code.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL): (1, 0.0),
        RequestKind(Code.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR): (1, 0.0),
    }


def test_sends_that_wait_for_a_flush_count_when_they_are_answered() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T")
    client = harness.client()
    client.put(send(b"x"), send(b"y"))
    harness.turn()
    assert times_of(harness) == {}
    harness.clock.step(40)
    harness.store.sync()
    assert len(client.take()) == 2
    assert times_of(harness) == {RequestKind(Code.SEND_MESSAGE_V2, 0): (2, 80.0)}


def test_a_held_pull_is_long_polling() -> None:
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.put(pull(sys_flag=HOLD))
    harness.turn()
    assert times_of(harness) == {}
    harness.clock.step(1_500)
    harness.client().ask(send(b"x"))
    assert len(client.take()) == 1
    assert times_of(harness) == {
        RequestKind(Code.SEND_MESSAGE_V2, 0): (1, 0.0),
        RequestKind(Code.PULL_MESSAGE, 0, was_held=True): (1, 1_500.0),
    }
    harness.client().ask(pull())
    assert times_of(harness)[RequestKind(Code.PULL_MESSAGE, 0)] == (1, 0.0)


def test_a_refused_pull() -> None:
    harness = BrokerHarness()
    harness.client().ask(pull(topic="none"))
    kind = RequestKind(Code.PULL_MESSAGE, ResponseCode.TOPIC_NOT_EXIST)
    assert times_of(harness) == {kind: (1, 0.0)}


def test_a_held_pop_is_long_polling() -> None:
    harness = PopHarness()
    client = harness.client()
    client.put(pop(poll_ms=20_000))
    harness.turn()
    harness.clock.step(300)
    harness.put(b"a")
    harness.turn()
    assert times_of(harness)[RequestKind(Code.POP_MESSAGE, 0, was_held=True)] == (1, 300.0)
    harness.put(b"b")
    harness.pop()
    assert times_of(harness)[RequestKind(Code.POP_MESSAGE, 0)] == (1, 0.0)


def test_oneway_requests_and_unknown_codes() -> None:
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.put(send(b"x", oneway=True))
    harness.turn()
    for number in range(1, 5_000):
        client.put(Command(70_000 + number))
    harness.turn()
    unsupported = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert times_of(harness) == {
        RequestKind(Code.SEND_MESSAGE_V2, 0, oneway=True): (1, 0.0),
        RequestKind(0, unsupported): (4_999, 0.0),
    }
    assert RequestKind(0, unsupported).request_name == "unknown"
    assert RequestKind(0, 4_242).answer_name == "4242"


def test_creations() -> None:
    harness = BrokerHarness()
    fields = {
        "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "order": "false",
    }  # fmt: skip
    for topic in ("A", "B", "rmq_sys_x", "bad topic"):
        harness.client().ask(command(Code.UPDATE_AND_CREATE_TOPIC, topic=topic, **fields))
    group = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    for body in (b'{"groupName":"G"}', b'{"groupName":"CID_RMQ_SYS_X"}', b"", b"{" * 20_000):
        harness.client().ask(command(group, body=body))
    found = {kind: sum(f.counts) for kind, f in harness.node.request_times.creations.items()}
    assert found == {
        CreateKind(False, False, True): 2,
        CreateKind(False, True, False): 1,
        CreateKind(False, False, False): 1,
        CreateKind(True, False, True): 1,
        CreateKind(True, True, True): 1,
        CreateKind(True, False, False): 2,
    }
