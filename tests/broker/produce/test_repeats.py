"""What another group hands over again is answered like the first and stored once (ADR 0051)."""

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, ext, send

from epochmq.base import limits
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import Role
from epochmq.model.sink_mark import ESCAPE_ID, LENGTH_MAX, escape_id, escape_mark
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.wire.command import Command

MARKED = {"UNIQ_KEY": "k", "MSG_REGION": "r", "TRACE_ON": "true", "CLUSTER": "c"}


def handed_over(number: int = 1, **more: object) -> Command:
    properties = {**MARKED, ESCAPE_ID: escape_id("a", "T", {}, number), "DELAY": "0", **more}
    return send(b"x", properties={k: str(v) for k, v in properties.items()})


def made(**more: object) -> BrokerHarness:
    harness = BrokerHarness(**more)
    harness.topic()
    return harness


def test_a_repeat_is_stored_once() -> None:
    harness = made()
    client = harness.client()
    first = client.ask(handed_over())
    again = client.ask(handed_over())
    assert first.code == again.code == 0
    assert ext(again)["msgId"] == ext(first)["msgId"]
    assert len(harness.stored("T", 1)) + len(harness.stored("T")) == 1
    assert harness.sink.stage.repeats.repeats == 1


def test_a_repeat_in_the_same_turn_is_stored_once() -> None:
    harness = made()
    client, other = harness.client(), harness.client()
    client.put(handed_over())
    other.put(handed_over())
    harness.turn()
    assert [answer.code for answer in client.take() + other.take()] == [0, 0]
    assert sum(len(harness.stored("T", n)) for n in range(4)) == 1


def test_others_are_stored_and_the_mark_is_not() -> None:
    harness = made()
    client = harness.client()
    for number in (1, 2):
        assert client.ask(handed_over(number)).code == 0
    stored = [message for n in range(4) for message in harness.stored("T", n)]
    assert len(stored) == 2
    assert all(ESCAPE_ID not in message.properties for message in stored)


def test_a_half_message_comes_once() -> None:
    harness = made()
    client = harness.client()
    for _ in range(2):
        command = handed_over(TRAN_MSG="true", PGROUP="PG")
        assert command.ext is not None
        command.ext["f"] = str(TX_PREPARED)
        assert client.ask(command).code == 0
    assert len(harness.stored("RMQ_SYS_TRANS_HALF_TOPIC")) == 1


def test_another_role_forgets_as_the_log_may_have_been_cut() -> None:
    harness = made()
    client = harness.client()
    client.ask(handed_over())
    become(harness.node, Role.SLAVE)
    become(harness.node, Role.MASTER)
    harness.node.move_to(GroupPosition(epoch=1))
    client.ask(handed_over())
    assert sum(len(harness.stored("T", n)) for n in range(4)) == 2


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ESCAPES_REMEMBERED_MAX", 1)
    harness = made()
    client = harness.client()
    for number in (1, 2, 1):
        client.ask(handed_over(number))
    assert sum(len(harness.stored("T", n)) for n in range(4)) == 3


def test_what_no_broker_writes_is_no_mark() -> None:
    assert escape_mark("", "T") is None
    assert escape_mark("x" * (LENGTH_MAX + 1), "T") is None
    harness = made()
    client = harness.client()
    long = {ESCAPE_ID: "x" * 300}
    for _ in range(2):
        assert client.ask(handed_over(**long)).code == 0
    assert sum(len(harness.stored("T", n)) for n in range(4)) == 2


def test_sinks_are_remembered_beside() -> None:
    harness = made()
    client = harness.client()
    sink = {"__SINK_ID": "s", "__SINK_BATCH": "1", "__SINK_PART": "0", "__SINK_SEQ": "0"}
    for _ in range(2):
        client.ask(send(b"x", properties={"UNIQ_KEY": "k", **sink}))
    assert sum(len(harness.stored("T", n)) for n in range(4)) == 1
    assert harness.sink.stage.repeats.repeats == harness.store.sinks.repeats == 1
