"""Careful writing: what may be held is not written again."""

from typing import Any

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
from epochmq.broker.roles import Role
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


def test_what_an_earlier_time_wrote_comes_back_to_nobody(desk: Desk) -> None:
    client = desk.client()
    first, second = client.ask(half(key="K1")), client.ask(half(key="K2"))
    waiting: list[Any] = []
    desk.node.when_kept = lambda end, done: waiting.append(done)  # type: ignore[method-assign]
    inner = desk.node.outlet.route
    puts: list[Any] = []

    class Slow:
        def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
            puts.append(done)

    desk.node.outlet.route = Moody(desk, Outcome.UNSURE)
    client.put(end(first))
    desk.turn()
    tick(desk)
    desk.node.outlet.route = Slow()
    client.put(end(second))
    desk.turn()
    desk.node.take_role(Role.SLAVE)
    tick(desk)
    desk.node.outlet.route = inner
    desk.node.take_role(Role.MASTER)
    tick(desk)
    for done in waiting:
        done(True)
    puts[0]([Outcome.STORED])
    client.take()
    assert client.ask(end(first)).code == ResponseCode.SUCCESS
    assert client.ask(end(second)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"hello"] * 2
