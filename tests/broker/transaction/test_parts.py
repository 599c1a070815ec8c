"""Careful writing: what may be held is not written again."""

import pytest
from tests.broker.desk import Desk
from tests.broker.transaction.around import (
    Moody,
    bodies,
    end,
    half,
    made,
    tick,
)

from epochmq.broker.outlet.core import Outcome
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def desk() -> Desk:
    return made()


def test_one_that_may_be_held_is_not_written_again(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    desk.node.outlet.route = Moody(desk, Outcome.UNSURE)
    client.put(end(answer))
    desk.turn()
    again = desk.client()
    again.put(end(answer))
    desk.turn()
    assert client.take() == again.take() == []
    tick(desk)
    assert [a.code for a in client.take() + again.take()] == [ResponseCode.SUCCESS] * 2
    assert bodies(desk) == [b"hello"]
