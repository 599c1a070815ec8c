"""END_TRANSACTION as a request: roles, readiness, values."""

import pytest
from tests.broker.desk import Desk
from tests.broker.transaction.around import (
    bodies,
    end,
    half,
    made,
    tick,
)

from epochmq.model.names import OP_HALF_TOPIC
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def desk() -> Desk:
    return made()


def test_unknown_changes_nothing(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    assert client.ask(end(answer, 0)).code == ResponseCode.SUCCESS
    tick(desk, 4_000)
    assert bodies(desk) == []
    assert desk.stored(OP_HALF_TOPIC) == []


def test_an_end_for_who_is_no_master(desk: Desk) -> None:
    from epochmq.broker.roles import Role

    client = desk.client()
    answer = client.ask(half())
    desk.node.take_role(Role.SLAVE)
    assert client.ask(end(answer)).code == ResponseCode.SLAVE_NOT_AVAILABLE
    desk.node.take_role(Role.MASTER)
    assert client.ask(end(answer)).code == ResponseCode.SYSTEM_BUSY
    tick(desk)
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"hello"]
