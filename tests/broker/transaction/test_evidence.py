"""What the log tells of a transaction that looks open and is not."""

import pytest
from tests.broker.desk import Desk
from tests.broker.transaction.around import (
    ROLLBACK,
    bodies,
    end,
    half,
    made,
    restarted,
    tick,
)

from epochmq.model.names import OP_HALF_TOPIC
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def desk() -> Desk:
    return made()


def test_a_commit_whose_op_message_was_not_written_is_not_delivered_twice(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    client.put(end(answer, oneway=True))
    desk.turn()
    assert desk.stored(OP_HALF_TOPIC) == []
    desk = restarted(desk)
    client = desk.client()
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    tick(desk, 3_000)
    assert bodies(desk) == [b"hello"]
    assert [op.body for op in desk.stored(OP_HALF_TOPIC)] == [b"0,"]


def test_the_same_without_an_index() -> None:
    desk = made(message_index_enable=False)
    client = desk.client()
    answer = client.ask(half())
    client.put(end(answer, oneway=True))
    desk.turn()
    desk = restarted(desk)
    from dataclasses import replace

    desk.node.adopt_options(replace(desk.options, message_index_enable=False))
    assert desk.client().ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"hello"]
