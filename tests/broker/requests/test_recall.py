"""370: a timed message is taken back, with RocketMQ 5.3.3's checks and codes."""

from typing import Any

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import ext, send
from tests.broker.delay.timers import TimerBroker

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.model.names import TIMER_TOPIC
from epochmq.model.recall_handle import RecallHandle, parse
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, request


def allowing(**more: Any) -> TimerBroker:
    return TimerBroker(recall_message_enable=True, **more)


@pytest.fixture
def broker() -> TimerBroker:
    return allowing()


def timed(broker: TimerBroker, key: str = "K", **properties: str) -> dict[str, str]:
    """What the answer to a timed message says."""
    asked = {"UNIQ_KEY": key, "TIMER_DELAY_MS": "3500", **properties}
    answer = broker.client().ask(send(b"timed", properties=asked))
    assert answer.code == 0, answer.remark
    return ext(answer)


def recall(broker: TimerBroker, handle: str, topic: str = "T") -> Command:
    fields = {"topic": topic, "recallHandle": handle, "producerGroup": "PG"}
    return broker.client().ask(request(Code.RECALL_MESSAGE, fields))


def test_what_is_recalled_never_comes(broker: TimerBroker) -> None:
    handle, other = timed(broker)["recallHandle"], timed(broker, "L")["recallHandle"]
    found = parse(handle)
    assert (found.topic, found.broker_name, found.uniq_key) == ("T", "b", "K")
    assert broker.run(2_000) == []
    answer = recall(broker, handle)
    assert (answer.code, ext(answer)["msgId"]) == (0, "K")
    assert ext(answer)["MSG_REGION"] == "DefaultRegion"  # Java's client traces a recall by it
    assert broker.run(10_000) == [b"timed"]
    assert parse(other).uniq_key == broker.stored("T")[0].uniq_key
    assert broker.stored(TIMER_TOPIC)[-1].properties["TIMER_DEL_UNIQKEY"] == "T+K"


@pytest.mark.parametrize("delay_ms", [1, 999, 1_000, 1_001, 2_500])
def test_to_the_last_moment(broker: TimerBroker, delay_ms: int) -> None:
    handle = timed(broker, TIMER_DELAY_MS=str(delay_ms))["recallHandle"]
    left = parse(handle).deliver_wall_ms - broker.clock.wall
    broker.run(max(left - 1, 0), 50)
    late = parse(handle).deliver_wall_ms <= broker.clock.wall
    answer = recall(broker, handle)
    assert answer.code == (ResponseCode.ILLEGAL_OPERATION if late else 0)
    assert (broker.run(5_000) == []) is not late


def test_only_timed_messages_have_handles_and_only_where_it_is_allowed() -> None:
    broker = allowing()
    for properties in ({}, {"DELAY": "1"}, {"TIMER_DELIVER_MS": "1"}):
        answer = broker.client().ask(send(b"x", properties=properties))
        assert "recallHandle" not in ext(answer)
    closed = TimerBroker()
    assert "recallHandle" not in timed(closed)
    answer = recall(closed, str(RecallHandle("T", "b", closed.clock.wall + 2_000, "K")))
    assert (answer.code, answer.remark) == (16, "recall failed, operation is forbidden")


@pytest.mark.parametrize(
    ("changes", "topic", "code", "remark"),
    [
        ({}, "X", 17, "recall failed, the topic[X] not exist"),
        ({"topic": "U"}, "T", 604, "recall failed, topic not match"),
        ({"broker_name": "c"}, "T", 604, "recall failed, broker service not available"),
        ({"deliver_wall_ms": -1}, "T", 604, "recall failed, timestamp invalid"),
        ({"deliver_wall_ms": 9 << 50}, "T", 604, "recall failed, timestamp invalid"),
    ],
)
def test_what_is_refused(
    broker: TimerBroker, changes: dict[str, Any], topic: str, code: int, remark: str
) -> None:
    handle = RecallHandle("T", "b", broker.clock.wall + 2_000, "K")._replace(**changes)
    answer = recall(broker, str(handle), topic)
    assert (answer.code, answer.remark) == (code, remark)


def test_what_is_no_handle(broker: TimerBroker) -> None:
    answer = recall(broker, "forged")
    assert (answer.code, answer.remark) == (604, "recall handle is invalid")


def test_without_the_right_to_write_nothing_is_recalled(broker: TimerBroker) -> None:
    handle = timed(broker)["recallHandle"]
    for role, code in ((Role.SLAVE, 11), (Role.ACTING_MASTER, 11)):
        become(broker.node, role)
        assert recall(broker, handle).code == code
    become(broker.node, Role.MASTER)
    broker.node.serving.grant_lease(broker.clock.now)
    assert recall(broker, handle).code == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize(("allowed", "code"), [(True, 0), (False, 14)])
def test_without_permission_to_write(allowed: bool, code: int) -> None:
    broker = allowing(allow_recall_when_broker_not_writeable=allowed)
    handle = timed(broker)["recallHandle"]
    object.__setattr__(broker.node.options, "broker_permission", 4)
    assert recall(broker, handle).code == code


def test_one_that_is_not_kept_is_not_promised(broker: TimerBroker) -> None:
    handle = timed(broker)["recallHandle"]

    class Refusing:
        def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
            done([WriteOutcome.LATER] * len(drafts))

    broker.node.internal_writer.route = Refusing()
    assert recall(broker, handle).code == ResponseCode.SYSTEM_ERROR
