"""Careful writing: what may be held is not written again."""

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness
from tests.broker.slow import Slow
from tests.broker.transaction.around import ROLLBACK, bodies, end, half, made, tick

from epochmq.broker.internal_writes.internal_writer import ASK_AGAIN_MS
from epochmq.broker.serving.roles import Role
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_one_that_may_be_held_is_not_written_again(harness: BrokerHarness) -> None:
    client, again = harness.client(), harness.client()
    answer = client.ask(half())
    slow = Slow(harness)
    client.put(end(answer))
    harness.turn()
    assert slow.answer(held=False) == 1
    again.put(end(answer))
    harness.turn()
    tick(harness, ASK_AGAIN_MS)
    assert client.take() == again.take() == []
    assert slow.answer(held=True) == 1
    tick(harness)
    assert [a.code for a in client.take() + again.take()] == [ResponseCode.SUCCESS] * 2
    assert bodies(harness) == [b"hello"]


def test_an_op_message_that_may_be_held_is_not_written_again(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    slow = Slow(harness)
    client.put(end(answer, ROLLBACK))
    harness.turn()
    before = harness.store.pointers.appended
    for _ in range(5):
        assert slow.answer(held=False) == 1
        tick(harness, ASK_AGAIN_MS)
    assert client.take() == []
    slow.answer(held=True)
    tick(harness)
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS]
    assert harness.store.pointers.appended == before


@pytest.mark.parametrize("late", [False, True])
def test_what_an_earlier_time_wrote_comes_back_to_nobody(
    harness: BrokerHarness, late: bool
) -> None:
    """Also of the same epoch: this broker was master, was not, and is again."""
    client = harness.client()
    first, second = client.ask(half(key="K1")), client.ask(half(key="K2"))
    slow = Slow(harness)
    client.put(end(first))
    harness.turn()
    if late:
        slow.answer(held=False)
        tick(harness, ASK_AGAIN_MS)
    client.put(end(second))
    harness.turn()
    earlier, slow.asked = slow.asked, []
    become(harness.node, Role.SLAVE)
    become(harness.node, Role.MASTER)
    del harness.node.when_kept
    tick(harness)
    for _, done in earlier:
        done(late)
    tick(harness)
    assert client.take() == []
    assert client.ask(end(first)).code == ResponseCode.SUCCESS
    assert client.ask(end(second)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"] * 2
