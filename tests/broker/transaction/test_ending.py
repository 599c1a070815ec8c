"""Ends: which transaction they mean, and that each ends once."""

from typing import Any

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import WALL, BrokerHarness
from tests.broker.slow import Slow
from tests.broker.transaction.around import (
    KEY,
    ROLLBACK,
    Moody,
    bodies,
    end,
    half,
    made,
    producer,
    tick,
)

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction.half_messages import GROUP
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_the_same_end_again_delivers_once(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    client.put(end(answer), end(answer, oneway=True))
    harness.turn()
    tick(harness)
    client.take()
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    tick(harness, 10_000)
    tick(harness)
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    client.put(end(answer, oneway=True))
    harness.turn()
    assert bodies(harness) == [b"hello"]


@pytest.mark.parametrize(
    ("wrong", "remark"),
    [
        ({"producerGroup": "other"}, "producer group"),
        ({"tranStateTableOffset": 1}, "Find prepared"),
        ({"tranStateTableOffset": -1}, "Find prepared"),
        ({"tranStateTableOffset": 2**60}, "Find prepared"),
        ({"commitLogOffset": 1}, "commit log offset"),
        ({"transactionId": "x", "msgId": "y"}, "not of transaction"),
        ({"commitOrRollback": 4}, "commitOrRollback"),
    ],
)
def test_what_is_not_ours_is_refused_and_nothing_is_lost(
    harness: BrokerHarness, wrong: dict[str, Any], remark: str
) -> None:
    client = harness.client()
    answer = client.ask(half())
    refused = client.ask(end(answer, **wrong))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert remark in (refused.remark or "")
    assert bodies(harness) == []
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (WriteOutcome.LATER, ResponseCode.SERVICE_NOT_AVAILABLE),
        (WriteOutcome.ILLEGAL, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_a_commit_that_is_not_written_can_be_repeated(
    harness: BrokerHarness, outcome: WriteOutcome, code: int
) -> None:
    client = harness.client()
    answer = client.ask(half())
    harness.node.internal_writer.route = Moody(harness, outcome)
    assert client.ask(end(answer)).code == code
    assert bodies(harness) == []
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


def test_an_end_that_waits_too_long_is_told(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    slow = Slow(harness)
    client.put(end(answer))
    harness.turn()
    again = harness.client()
    again.put(end(answer))
    harness.turn()
    tick(harness, 2_500)
    (late,) = again.take()
    assert late.code == ResponseCode.SYSTEM_BUSY
    slow.answer(held=False)
    tick(harness, 200)
    slow.answer(held=True)
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS]
    assert bodies(harness) == [b"hello"]


def test_another_master_in_between_sends_waiting_clients_away(harness: BrokerHarness) -> None:
    from epochmq.broker.serving.roles import Role

    client = harness.client()
    answer = client.ask(half())
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.LATER)
    client.put(end(answer, ROLLBACK))
    harness.turn()
    become(harness.node, Role.SLAVE)
    tick(harness)
    assert [a.code for a in client.take()] == [ResponseCode.SYSTEM_BUSY]


def test_an_end_waits_until_readers_may_see_its_half_message(harness: BrokerHarness) -> None:
    """With replicas a producer is answered before the whole set holds its half message."""
    client = harness.client()
    client.ask(end(client.ask(half(key="K0")), ROLLBACK))
    harness.store.limit_confirm(harness.store.pointers.appended)
    answer = client.ask(half())
    client.put(end(answer), end(answer, tranStateTableOffset=99))
    harness.turn()
    assert client.take() == []
    assert harness.node.transactions.next_deadline(harness.clock.now) is not None
    harness.store.limit_confirm(None)
    tick(harness)
    assert sorted(a.code for a in client.take()) == [
        ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR,
    ]  # fmt: skip
    assert bodies(harness) == [b"hello"]


def test_one_that_is_damaged_can_be_ended_once_it_is_repaired(harness: BrokerHarness) -> None:
    client = harness.client()
    answer, other = client.ask(half()), client.ask(half())
    assert client.ask(end(other)).code == ResponseCode.SUCCESS  # both are known now
    first = harness.stored(HALF_TOPIC)[0]
    harness.store.damage.report(first.offset, first.offset + first.size, "rot")
    refused = client.ask(end(answer))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "is damaged" in (refused.remark or "")
    harness.store.damage.clear(0, 1 << 60)
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS


def test_one_that_names_no_place_or_is_gone(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another broker may have left it."""
    client = harness.client()
    answer = client.ask(half())
    (first,) = harness.stored(HALF_TOPIC)
    harness.store.append([Draft(HALF_TOPIC, 0, b"?", b"PGROUP\x01PG")], WALL)
    (_, second) = harness.stored(HALF_TOPIC)
    lost = {"tranStateTableOffset": 1, "commitLogOffset": second.offset}
    ids = {"msgId": second.offset_msg_id, "transactionId": ""}
    refused = client.ask(end(answer, **lost, **ids))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "names no topic" in (refused.remark or "")
    monkeypatch.setattr(harness.store, "message_at", lambda offset, size=None: None)
    assert "is damaged" in (client.ask(end(answer)).remark or "")
    monkeypatch.setattr(harness.store.pointers, "start", 1)
    refused = client.ask(end(answer))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "Find prepared" in (refused.remark or "")
    assert first.offset == 0


def test_a_repeated_rollback_waits_for_the_op_message_as_well(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    client.put(end(answer, ROLLBACK), end(answer, ROLLBACK))
    harness.turn()
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS] * 2
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("acts", [False, True])
def test_one_that_may_have_been_handed_over_is_said_so(acts: bool) -> None:
    """While the master was away, its half message was perhaps given to another (RIP-32)."""
    harness = made(enable_slave_acting_master=acts)
    answer = harness.client().ask(half())
    harness.node.offsets.commit(GROUP, HALF_TOPIC, 0, 1)  # as a slave left it
    become(harness.node, Role.SLAVE)
    tick(harness)
    become(harness.node, Role.MASTER)
    tick(harness)
    said = harness.client().ask(end(answer))
    assert said.code == ResponseCode.SYSTEM_ERROR
    assert said.remark is not None
    assert ("forwarded it" in said.remark) is acts
    said = harness.client().ask(end(answer, ROLLBACK))
    if acts:
        assert (said.code, "forwarded it" in (said.remark or "")) == (1, True)
    else:
        assert said.code == ResponseCode.SUCCESS
    assert bodies(harness) == []


@pytest.mark.parametrize("copied", [False, True])
def test_what_was_rolled_back_here_was_not_handed_over(copied: bool) -> None:
    """Its op message says so, long after it left the window."""
    harness = made(enable_slave_acting_master=True)
    answer = harness.client().ask(half())
    if copied:
        producer(harness)
        tick(harness, 31_000)
        assert len(harness.stored(HALF_TOPIC)) == 2
    assert harness.client().ask(half(b"next", KEY[:-1] + "2")).code == ResponseCode.SUCCESS
    client = harness.client()
    client.put(end(answer, ROLLBACK))
    harness.turn()
    tick(harness, 3_100)
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS]
    assert harness.stored(OP_HALF_TOPIC)
    become(harness.node, Role.SLAVE)
    tick(harness)
    become(harness.node, Role.MASTER)
    tick(harness)
    assert harness.client().ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS
    said = harness.client().ask(end(answer))
    assert said.code == ResponseCode.SYSTEM_ERROR
    assert "it was rolled back" in (said.remark or "")


def test_what_was_given_up_here_was_not_handed_over() -> None:
    harness = made(enable_slave_acting_master=True, transaction_check_max=0)
    answer = harness.client().ask(half())
    producer(harness)
    tick(harness, 31_000)
    harness.node.offsets.commit(GROUP, HALF_TOPIC, 0, 1)  # the op message was never written
    become(harness.node, Role.SLAVE)
    tick(harness)
    become(harness.node, Role.MASTER)
    tick(harness)
    assert harness.client().ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS
