"""Acknowledging and hiding: upstream's codes, honest where upstream is not."""

from typing import Any

import pytest
from tests.broker.broker_harness import BrokerHarness, ext
from tests.broker.pop_harness import PopHarness, Popped, ack, batch, entry, hide

from epochmq.base import limits
from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

RETRY = "%RETRY%G_T"


@pytest.fixture
def harness() -> PopHarness:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    return harness


def say(harness: BrokerHarness, asked: Command) -> int:
    answer = harness.client().ask(asked)
    assert answer.code == 0 or answer.remark
    return answer.code


def other_handle(one: Popped, place: int, value: object) -> Popped:
    fields = one.handle.split()
    fields[place] = str(value)
    return one._replace(handle=" ".join(fields))


def test_an_acknowledgement_may_be_repeated(harness: PopHarness) -> None:
    one, *_ = harness.pop()
    assert say(harness, ack(one)) == 0
    assert say(harness, ack(one)) == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "X"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"queueId": -1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 4}, ResponseCode.NO_MESSAGE),
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
        ({"offset": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extraInfo": "forged"}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_what_cannot_be_acknowledged(
    harness: PopHarness, changes: dict[str, Any], code: int
) -> None:
    one, *_ = harness.pop(invisible_ms=5_000)
    assert say(harness, ack(one, **changes)) == code
    assert say(harness, hide(one, 9_000, **changes)) == code
    harness.tick()
    harness.tick(5_000)
    assert len(harness.stored(RETRY)) == 3  # nothing was lost by it


@pytest.mark.parametrize(("place", "value"), [(3, 8), (3, 998), (5, "other"), (6, 1)])
def test_a_handle_of_elsewhere(harness: PopHarness, place: int, value: object) -> None:
    one, *_ = harness.pop(invisible_ms=5_000)
    assert say(harness, ack(other_handle(one, place, value))) == ResponseCode.MESSAGE_ILLEGAL
    harness.tick()
    harness.tick(5_000)
    assert len(harness.stored(RETRY)) == 3


def test_a_message_that_its_check_point_has_not(harness: PopHarness) -> None:
    first, *_ = harness.pop(count=1)
    second, *_ = harness.pop(count=1)
    forged = second._replace(handle=" ".join([*first.handle.split()[:7], "1"]))
    assert say(harness, ack(forged)) == ResponseCode.MESSAGE_ILLEGAL


def test_what_is_over_is_not_acknowledged(harness: PopHarness) -> None:
    """RocketMQ says SUCCESS, and the message comes again all the same."""
    one, two, three = harness.pop(invisible_ms=5_000)
    harness.tick()
    harness.clock.step(6_000)
    assert say(harness, ack(three)) == 0  # in time yet: it was not delivered again
    harness.tick()
    assert [message.body for message in harness.stored(RETRY)] == [b"a", b"b"]
    assert say(harness, ack(one)) == ResponseCode.NO_MESSAGE
    assert say(harness, hide(two, 5_000)) == ResponseCode.NO_MESSAGE


class Refusing:
    def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
        done([WriteOutcome.LATER] * len(drafts))


def test_one_that_is_not_kept_is_refused(harness: PopHarness) -> None:
    """RocketMQ says SUCCESS here, too."""
    one, *_ = harness.pop()
    route, harness.node.internal_writer.route = harness.node.internal_writer.route, Refusing()
    assert say(harness, ack(one)) == ResponseCode.SYSTEM_ERROR
    assert say(harness, hide(one, 5_000)) == ResponseCode.SYSTEM_ERROR
    assert say(harness, batch(entry(one, 0))) == ResponseCode.SYSTEM_ERROR
    harness.node.internal_writer.route = route
    assert say(harness, ack(one)) == 0


# Hiding --------------------------------------------------------------------------------------


def hidden(harness: PopHarness, one: Popped, ms: int) -> Popped:
    answer = harness.client().ask(hide(one, ms))
    assert answer.code == 0, answer.remark
    fields = ext(answer)
    assert fields["invisibleTime"] == str(ms)
    handle = (
        f"{one.offset} {fields['popTime']} {ms} {fields['reviveQid']} 0 b"
        f" {one.message.queue_id} {one.offset}"
    )
    return one._replace(handle=handle)


def test_a_message_is_hidden_for_another_time(harness: PopHarness) -> None:
    one, *others = harness.pop(invisible_ms=5_000)
    harness.ack(*others)
    again = hidden(harness, one, 20_000)
    harness.tick()
    harness.tick(5_000)
    assert harness.stored(RETRY) == []
    assert say(harness, ack(one)) == ResponseCode.NO_MESSAGE
    harness.tick(14_999)
    assert harness.stored(RETRY) == []
    harness.tick(1)
    assert [message.body for message in harness.stored(RETRY)] == [b"a"]
    harness.tick(1)
    assert say(harness, ack(again)) == ResponseCode.NO_MESSAGE


def test_the_new_handle_acknowledges(harness: PopHarness) -> None:
    one, *others = harness.pop(invisible_ms=5_000)
    harness.ack(*others)
    again = hidden(harness, one, 1_000)
    once_more = hidden(harness, again, 2_000)
    assert say(harness, ack(once_more)) == 0
    harness.tick()
    harness.tick(9_000)
    assert harness.stored(RETRY) == []


@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_hidden_for_another_time_it_keeps_the_time_of_its_pop(buffers: bool, times: int) -> None:
    harness = PopHarness(enable_pop_buffer_merge=buffers)
    harness.put(b"a")
    (one,) = harness.pop(invisible_ms=60_000)
    popped_ms = one.handle.split()[1]
    for _ in range(times):
        harness.tick(700)
        one = hidden(harness, one, 60_000)
        assert one.handle.split()[1] != popped_ms
    harness.tick(1)
    harness.tick(60_000)
    (copy,) = harness.stored(RETRY)
    assert copy.properties["1ST_POP_TIME"] == popped_ms
    (again,) = harness.pop(invisible_ms=5_000)  # the message itself says it from now on
    hidden(harness, again, 6_000)
    harness.tick(1)
    harness.tick(6_000)
    assert harness.stored(RETRY)[-1].properties["1ST_POP_TIME"] == popped_ms


def test_what_cannot_be_hidden(harness: PopHarness) -> None:
    one, *_ = harness.pop()
    assert say(harness, hide(one, 0)) == ResponseCode.SYSTEM_ERROR
    at_end = ack(one, offset=3, invisibleTime=9, extraInfo=one.handle[:-1] + "3")
    at_end.code = Code.CHANGE_MESSAGE_INVISIBLETIME
    assert say(harness, at_end) == ResponseCode.NO_MESSAGE  # rocketmq#9187
    harness.ack(one)
    assert say(harness, hide(one, 9_000)) == ResponseCode.NO_MESSAGE


def test_acknowledgements_of_one_turn_are_one_record(harness: PopHarness) -> None:
    one, two, three = harness.pop(invisible_ms=5_000)
    client = harness.client()
    client.put(ack(one), ack(three), ack(three))
    assert client.take() == []
    harness.turn()
    assert [answer.code for answer in client.take()] == [0, 0, 0]
    queue_id = int(one.handle.split()[3])
    assert len(harness.stored("rmq_sys_REVIVE_LOG_c", queue_id)) == 2
    client.put(ack(two))
    harness.tick(5_000)  # due in the same turn: the acknowledgement goes first
    assert client.take()[0].code == 0
    assert harness.stored(RETRY) == []


@pytest.mark.parametrize("way", ["one", "several", "hidden"])
@pytest.mark.parametrize("queue_id", [0, 1])
def test_the_same_place_in_another_queue_is_another_message(way: str, queue_id: int) -> None:
    """Handles of two queues may agree in everything but the queue."""
    harness = PopHarness()
    harness.topic("T", queues=2)
    for number in (0, 1):
        harness.put(b"%d" % number, queue_id=number)
    messages = {one.message.queue_id: one for one in harness.pop(invisible_ms=5_000)}
    done, other = messages[queue_id], messages[1 - queue_id]
    assert done.offset == other.offset
    assert done.handle.split()[:4] == other.handle.split()[:4]
    asked = {"one": ack(done), "several": batch(entry(done, 0)), "hidden": hide(done, 60_000)}
    assert say(harness, asked[way]) == 0
    harness.tick()
    harness.tick(5_000)
    assert [message.body for message in harness.stored(RETRY)] == [other.body]


# Several at once -----------------------------------------------------------------------------


def test_several_at_once(harness: PopHarness) -> None:
    one, *_ = harness.pop(invisible_ms=5_000)
    assert say(harness, batch(entry(one, 0, 2))) == 0
    harness.tick()
    harness.tick(5_000)
    assert [message.body for message in harness.stored(RETRY)] == [b"b"]
    (again,) = harness.pop()
    assert say(harness, batch(entry(again, 0))) == 0
    harness.tick()
    assert harness.node.pop.statistics()["open"] == 0


def test_batches_that_are_refused(harness: PopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    one, *_ = harness.pop(invisible_ms=5_000)
    assert say(harness, batch()) == ResponseCode.NO_MESSAGE
    assert say(harness, batch(entry(one))) == ResponseCode.NO_MESSAGE
    assert say(harness, batch(entry(one, 0, t="X"))) == ResponseCode.TOPIC_NOT_EXIST
    assert say(harness, batch(entry(one, 0, q=7))) == ResponseCode.MESSAGE_ILLEGAL
    assert say(harness, batch(entry(one, 0, rq=8))) == ResponseCode.MESSAGE_ILLEGAL
    assert say(harness, batch(entry(one, 0, b="?"))) == ResponseCode.SYSTEM_ERROR
    assert say(harness, batch(entry(one, 0), entry(one))) == 0
    assert say(harness, batch(entry(one, 0, 3))) == ResponseCode.NO_MESSAGE  # and 0 is taken
    monkeypatch.setattr(limits, "POP_ACKS_PER_REQUEST_MAX", 1)
    assert say(harness, batch(entry(one, 1, 2))) == ResponseCode.MESSAGE_ILLEGAL
    harness.tick()
    harness.tick(5_000)
    assert [message.body for message in harness.stored(RETRY)] == [b"b", b"c"]


def test_a_batch_of_what_was_popped_in_order_tells_that_it_is_too_late(harness: PopHarness) -> None:
    """RocketMQ says SUCCESS, and another consumer has the messages."""
    one, two, three = harness.pop(order="true", invisible_ms=5_000)
    assert say(harness, batch(entry(one, 0), entry(two, 1))) == 0
    harness.tick(5_000)
    (again,) = harness.pop(order="true", invisible_ms=5_000)
    assert say(harness, batch(entry(three, 2))) == ResponseCode.NO_MESSAGE
    assert harness.offset() == 2
    assert say(harness, batch(entry(again, 2))) == 0
    assert harness.offset() == 3


# In order ------------------------------------------------------------------------------------


def test_ordered_ones(harness: PopHarness) -> None:
    one, two, three = harness.pop(order="true", invisible_ms=5_000)
    assert say(harness, batch(entry(two, 1))) == 0
    answer = harness.client().ask(hide(one, 9_000))
    assert ext(answer)["reviveQid"] == "999"
    assert ext(answer)["popTime"] == one.handle.split()[1]
    assert ext(answer)["invisibleTime"] == "9000"
    harness.tick(8_999)
    assert harness.pop(order="true") == []
    assert say(harness, ack(three)) == 0
    assert say(harness, ack(one)) == 0
    assert harness.offset() == 3


def test_ordered_ones_that_are_refused(harness: PopHarness) -> None:
    one, *_ = harness.pop(order="true", count=1, invisible_ms=5_000)
    elsewhere = ack(one, offset=2, extraInfo=one.handle[:-1] + "2")
    assert say(harness, elsewhere) == ResponseCode.MESSAGE_ILLEGAL
    stale = other_handle(one, 1, 5)
    assert say(harness, ack(stale)) == ResponseCode.NO_MESSAGE
    assert say(harness, hide(stale, 5_000)) == ResponseCode.NO_MESSAGE
    assert harness.offset() == 0


def test_a_reset_is_not_undone_by_an_ordered_acknowledgement(harness: PopHarness) -> None:
    one, *_ = harness.pop(order="true", count=1)
    harness.node.offsets.reset("G", "T", 0, 2, harness.clock.wall)
    assert say(harness, ack(one)) == 0
    assert [one.body for one in harness.pop(order="true")] == [b"c"]
