"""323: what was given up is asked about again."""

import pytest
from tests.broker.desk import Desk, send
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

from epochmq.broker.internal_writes.internal_writer import Outcome
from epochmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command, request


@pytest.fixture
def desk() -> Desk:
    """A transaction nobody answered for, given up after one question."""
    desk = made(transaction_check_max=1)
    desk.client().ask(half())
    asked = producer(desk)
    tick(desk, 31_000)
    check_of(asked)
    tick(desk, 31_000)
    desk.node.producers.unregister("PG", asked.session)
    assert bodies(desk, TRANS_CHECK_MAX_TIME_TOPIC, 0) == [b"hello"]
    return desk


def resume(desk: Desk, msg_id: str) -> Command:
    fields = {"topic": TRANS_CHECK_MAX_TIME_TOPIC, "msgId": msg_id}
    return desk.client().ask(request(Code.RESUME_CHECK_HALF_MESSAGE, fields))


def given_up(desk: Desk) -> str:
    return desk.stored(TRANS_CHECK_MAX_TIME_TOPIC)[0].offset_msg_id


def test_its_producer_is_asked_again_and_may_commit(desk: Desk) -> None:
    client = producer(desk)
    tick(desk, 31_000)
    assert client.session.take_outbox() == []
    assert resume(desk, given_up(desk)).code == 0
    newest = desk.stored(HALF_TOPIC)[-1]
    assert (newest.body, newest.properties["TRANSACTION_CHECK_TIMES"]) == (b"hello", "0")
    tick(desk, 31_000)
    check, message = check_of(client)
    assert (message.topic, message.uniq_key) == ("T", KEY)
    assert message.properties["__HALF_OF"] == f"{desk.options.broker_name}@0", "as it is known"
    client.put(answered(check, 8))
    desk.turn()
    tick(desk)
    assert bodies(desk) == [b"hello"]
    tick(desk, 60_000)
    assert bodies(desk) == [b"hello"]
    assert len(desk.stored(TRANS_CHECK_MAX_TIME_TOPIC)) == 1


def test_only_what_was_given_up(desk: Desk) -> None:
    desk.client().ask(send(b"x", queue_id=1))
    plain = desk.stored("T", 1)[0].offset_msg_id
    for msg_id in ("", "K", "00" * 16, plain):
        answer = resume(desk, msg_id)
        assert answer.code == 1
        assert answer.remark


def test_one_that_is_not_kept_is_not_promised(desk: Desk) -> None:
    desk.node.internal_writer.route = Moody(desk, Outcome.LATER)
    answer = resume(desk, given_up(desk))
    assert (answer.code, answer.remark) == (
        1,
        "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.",
    )


def test_one_that_names_no_place() -> None:
    desk = made()
    desk.client().ask(send(b"x", topic=TRANS_CHECK_MAX_TIME_TOPIC))
    stored = desk.stored(TRANS_CHECK_MAX_TIME_TOPIC)
    if stored:
        assert resume(desk, stored[0].offset_msg_id).code == 1
