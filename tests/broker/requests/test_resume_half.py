"""323: what was given up is asked about again."""

import pytest
from tests.broker.broker_harness import BrokerHarness, send
from tests.broker.transaction.around import (
    KEY,
    Moody,
    answered,
    bodies,
    check_of,
    half,
    made,
    producer,
    tick,
)

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command, request


@pytest.fixture
def harness() -> BrokerHarness:
    """A transaction nobody answered for, given up after one question."""
    harness = made(transaction_check_max=1)
    harness.client().ask(half())
    asked = producer(harness)
    tick(harness, 31_000)
    check_of(asked)
    tick(harness, 31_000)
    harness.node.producers.unregister("PG", asked.session)
    assert bodies(harness, TRANS_CHECK_MAX_TIME_TOPIC, 0) == [b"hello"]
    return harness


def resume(harness: BrokerHarness, msg_id: str) -> Command:
    fields = {"topic": TRANS_CHECK_MAX_TIME_TOPIC, "msgId": msg_id}
    return harness.client().ask(request(Code.RESUME_CHECK_HALF_MESSAGE, fields))


def given_up(harness: BrokerHarness) -> str:
    return harness.stored(TRANS_CHECK_MAX_TIME_TOPIC)[0].offset_msg_id


def test_its_producer_is_asked_again_and_may_commit(harness: BrokerHarness) -> None:
    client = producer(harness)
    tick(harness, 31_000)
    assert client.session.pop_outbox() == []
    assert resume(harness, given_up(harness)).code == 0
    newest = harness.stored(HALF_TOPIC)[-1]
    assert (newest.body, newest.properties["TRANSACTION_CHECK_TIMES"]) == (b"hello", "0")
    tick(harness, 31_000)
    check, message = check_of(client)
    assert (message.topic, message.uniq_key) == ("T", KEY)
    assert message.properties["__HALF_OF"] == f"{harness.options.broker_name}@0", "as it is known"
    client.put(answered(check, 8))
    harness.turn()
    tick(harness)
    assert bodies(harness) == [b"hello"]
    tick(harness, 60_000)
    assert bodies(harness) == [b"hello"]
    assert len(harness.stored(TRANS_CHECK_MAX_TIME_TOPIC)) == 1


def test_only_what_was_given_up(harness: BrokerHarness) -> None:
    harness.client().ask(send(b"x", queue_id=1))
    plain = harness.stored("T", 1)[0].offset_msg_id
    for msg_id in ("", "K", "00" * 16, plain):
        answer = resume(harness, msg_id)
        assert answer.code == 1
        assert answer.remark


def test_one_that_is_not_kept_is_not_promised(harness: BrokerHarness) -> None:
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.LATER)
    answer = resume(harness, given_up(harness))
    assert (answer.code, answer.remark) == (
        1,
        "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.",
    )


def test_one_that_names_no_place() -> None:
    harness = made()
    harness.client().ask(send(b"x", topic=TRANS_CHECK_MAX_TIME_TOPIC))
    stored = harness.stored(TRANS_CHECK_MAX_TIME_TOPIC)
    if stored:
        assert resume(harness, stored[0].offset_msg_id).code == 1
