"""Careful writing: what may be held is not written again."""

import pytest
from tests.broker.desk import Desk
from tests.broker.slow import Slow
from tests.broker.transaction.around import ROLLBACK, bodies, end, half, made, tick

from epochmq.broker.internal_writes.pending_writes import ASK_AGAIN_MS
from epochmq.broker.roles import Role
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def desk() -> Desk:
    return made()


def test_one_that_may_be_held_is_not_written_again(desk: Desk) -> None:
    client, again = desk.client(), desk.client()
    answer = client.ask(half())
    slow = Slow(desk)
    client.put(end(answer))
    desk.turn()
    assert slow.answer(held=False) == 1
    again.put(end(answer))
    desk.turn()
    tick(desk, ASK_AGAIN_MS)
    assert client.take() == again.take() == []
    assert slow.answer(held=True) == 1
    tick(desk)
    assert [a.code for a in client.take() + again.take()] == [ResponseCode.SUCCESS] * 2
    assert bodies(desk) == [b"hello"]


def test_an_op_message_that_may_be_held_is_not_written_again(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    slow = Slow(desk)
    client.put(end(answer, ROLLBACK))
    desk.turn()
    before = desk.store.pointers.appended
    for _ in range(5):
        assert slow.answer(held=False) == 1
        tick(desk, ASK_AGAIN_MS)
    assert client.take() == []
    slow.answer(held=True)
    tick(desk)
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS]
    assert desk.store.pointers.appended == before


@pytest.mark.parametrize("late", [False, True])
def test_what_an_earlier_time_wrote_comes_back_to_nobody(desk: Desk, late: bool) -> None:
    """Also of the same epoch: this broker was master, was not, and is again."""
    client = desk.client()
    first, second = client.ask(half(key="K1")), client.ask(half(key="K2"))
    slow = Slow(desk)
    client.put(end(first))
    desk.turn()
    if late:
        slow.answer(held=False)
        tick(desk, ASK_AGAIN_MS)
    client.put(end(second))
    desk.turn()
    earlier, slow.asked = slow.asked, []
    desk.node.take_role(Role.SLAVE)
    desk.node.take_role(Role.MASTER)
    del desk.node.when_kept
    tick(desk)
    for _, done in earlier:
        done(late)
    tick(desk)
    assert client.take() == []
    assert client.ask(end(first)).code == ResponseCode.SUCCESS
    assert client.ask(end(second)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"hello"] * 2
