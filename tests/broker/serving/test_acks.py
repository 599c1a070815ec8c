"""Sends that wait for replicas: which code comes of which outcome, and who may still answer."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, Client, send

from epochmq.broker.serving.acknowledgement import PendingAcks
from epochmq.broker.serving.roles import Role
from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.replication.ack_policy import AckStatus
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command


class Replicas:
    """Replication by hand: the test says what became of whom."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, Callable[[AckStatus], None]]] = []
        self.status: AckStatus | None = None
        self.announced = 0

    def refusal(self) -> AckStatus | None:
        return self.status

    def when_acked(
        self, offset: int, deadline_at_ms: int, done: Callable[[AckStatus], None]
    ) -> None:
        self.waiting.append((offset, deadline_at_ms, done))

    def appended(self) -> None:
        self.announced += 1

    def say(self, status: AckStatus) -> None:
        waiting, self.waiting = self.waiting, []
        for _offset, _deadline, done in waiting:
            done(status)


class AckHarness(BrokerHarness):
    def __init__(self, *, waits: bool = True, flush: str = "ASYNC_FLUSH") -> None:
        super().__init__(flush_disk_type=flush)
        self.replicas = Replicas()
        self.node.acks = PendingAcks(self.replicas, lambda: self.node.serving.rights, waits=waits)
        self.topic("T")

    def codes(self, client: Client) -> list[int]:
        return [answer.code for answer in client.take()]


def test_a_turn_waits_as_one_group_for_the_end_of_its_last_message() -> None:
    harness = AckHarness()
    clients = [harness.client(), harness.client()]
    for client in clients:
        client.put(send(), send())
    harness.turn()
    assert [client.take() for client in clients] == [[], []]
    ((offset, deadline, _done),) = harness.replicas.waiting
    assert offset == harness.store.pointers.appended
    assert deadline == harness.clock.now + harness.options.slave_timeout
    harness.replicas.say(AckStatus.ACKED)
    assert [harness.codes(client) for client in clients] == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (AckStatus.TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT),
        (AckStatus.FENCED, ResponseCode.SERVICE_NOT_AVAILABLE),
        (AckStatus.NOT_ENOUGH, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_is_not_acknowledged_is_never_answered_with_success(
    status: AckStatus, code: ResponseCode
) -> None:
    harness = AckHarness()
    client = harness.client()
    client.put(send(), batch_send())
    harness.turn()
    harness.replicas.say(status)
    assert harness.codes(client) == [code, code]


def batch_send(**more: Any) -> Command:
    body = batch.encode([Message("T", b"x"), Message("T", b"y")])
    return send(body, code=RequestCode.SEND_BATCH_MESSAGE, **more)


def test_with_sync_flush_both_must_have_it() -> None:
    harness = AckHarness(flush="SYNC_FLUSH")
    client = harness.client()
    client.put(send())
    harness.turn()
    harness.replicas.say(AckStatus.ACKED)
    assert client.take() == []
    harness.store.sync()
    assert harness.codes(client) == [0]
    client.put(send())
    harness.turn()
    harness.store.sync()
    assert client.take() == []
    harness.replicas.say(AckStatus.TIMEOUT)
    assert harness.codes(client) == [ResponseCode.FLUSH_SLAVE_TIMEOUT]


def test_whoever_does_not_want_to_wait_does_not() -> None:
    harness = AckHarness()
    client = harness.client()
    client.put(send(properties={"WAIT": "false"}))
    harness.turn()
    assert harness.codes(client) == [0]
    assert not harness.replicas.waiting


def test_without_a_policy_nobody_waits_and_replicas_are_told_once_a_turn() -> None:
    harness = AckHarness(waits=False)
    client = harness.client()
    client.put(send(), send())
    harness.turn()
    assert harness.codes(client) == [0, 0]
    assert harness.replicas.announced == 1
    harness.turn()
    assert harness.replicas.announced == 1


def test_too_few_replicas_are_a_refusal_before_anything_is_stored() -> None:
    """IN_SYNC_REPLICAS_NOT_ENOUGH."""
    harness = AckHarness()
    harness.replicas.status = AckStatus.NOT_ENOUGH
    client = harness.client()
    client.put(send(), batch_send())
    harness.turn()
    answers = client.take()
    assert {(answer.code, answer.remark) for answer in answers} == {
        (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
    }
    assert harness.store.pointers.appended == 0


def test_an_acknowledgement_after_the_lease_is_a_failure() -> None:
    """S17: paused between the append and the acknowledgement, and resumed."""
    harness = AckHarness()
    harness.node.serving.grant_lease(harness.clock.now + 2000)
    client = harness.client()
    client.put(send())
    harness.turn()
    harness.clock.step(2000)
    harness.replicas.say(AckStatus.ACKED)
    assert harness.codes(client) == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert harness.node.acks is not None
    assert harness.node.acks.refused == 1


def test_an_answer_at_once_after_the_lease_is_a_failure_too() -> None:
    harness = AckHarness(waits=False)
    harness.node.serving.grant_lease(harness.clock.now + 1)
    client = harness.client()
    client.put(send())
    harness.clock.step(1)
    harness.turn()
    assert harness.codes(client) == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert harness.store.pointers.appended == 0


def test_a_broker_that_lost_its_role_within_the_turn_appends_nothing() -> None:
    """INV-32."""
    harness = AckHarness()
    client = harness.client()
    client.put(send())
    become(harness.node, Role.SLAVE)
    harness.turn()
    assert harness.codes(client) == [ResponseCode.SERVICE_NOT_AVAILABLE]
    client.put(batch_send())
    assert harness.codes(client) == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert harness.store.pointers.appended == 0


def test_past_the_lease_the_whole_sets_word_is_an_acknowledgement() -> None:
    """ADR 0044."""
    harness = AckHarness()
    harness.node.serving.grant_lease(harness.clock.now)
    harness.node.serving.trust_set(lambda _now: True)
    client = harness.client()
    client.put(send())
    harness.turn()
    harness.replicas.say(AckStatus.ACKED)
    assert harness.codes(client) == [0]


@pytest.mark.parametrize("make", [send, batch_send], ids=["one", "batch"])
def test_past_the_lease_everybody_waits_for_the_whole_set(make: Callable[..., Command]) -> None:
    """Who asked not to wait would be answered by one broker's word."""
    harness = AckHarness()
    harness.node.serving.grant_lease(harness.clock.now)
    harness.node.serving.trust_set(lambda _now: True)
    client = harness.client()
    client.put(make(properties={"WAIT": "false", "UNIQ_KEY": "U"}))
    harness.turn()
    assert harness.codes(client) == []
    harness.node.serving.trust_set(lambda _now: False)
    harness.replicas.say(AckStatus.ACKED)
    assert harness.codes(client) == [ResponseCode.SERVICE_NOT_AVAILABLE]
