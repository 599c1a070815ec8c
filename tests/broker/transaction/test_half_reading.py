"""What is known after a restart, from both queues."""

import pytest
from tests.broker.desk import Desk
from tests.broker.slow import Slow
from tests.broker.transaction.around import (
    COMMIT,
    ROLLBACK,
    bodies,
    end,
    half,
    made,
    restarted,
    tick,
)

from epochmq.broker.roles import Role
from epochmq.broker.transaction.transaction_service import HELD_LOOK_MS
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def desk() -> Desk:
    return made()


def test_one_left_open_can_be_ended_after_a_restart(desk: Desk) -> None:
    first, second = (desk.client().ask(half(b"%d" % n, f"KEY{n}")) for n in range(2))
    desk.client().ask(end(second, ROLLBACK))
    tick(desk)
    desk = restarted(desk, keep_offsets=False)
    client = desk.client()
    assert client.ask(end(second, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(end(first, COMMIT)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"0"]


def test_nothing_is_ended_before_all_of_the_log_is_shown(desk: Desk) -> None:
    """What was master a moment ago may have written the real message where nobody sees it yet
    (`python -m sim replay --world secondary --seed 710029`)."""
    client = desk.client()
    answer = client.ask(half())
    desk.store.limit_confirm(desk.store.pointers.appended)
    slow = Slow(desk)
    client.put(end(answer))
    desk.turn()
    slow.answer(held=False)
    desk.node.take_role(Role.SLAVE)
    tick(desk)
    del desk.node.when_kept
    desk.node.take_role(Role.MASTER)
    tick(desk)
    client.take()
    assert not desk.node.transactions.ready
    assert desk.node.transactions.next_deadline(desk.clock.now) == desk.clock.now + HELD_LOOK_MS
    assert client.ask(end(answer)).code == ResponseCode.SYSTEM_BUSY
    desk.store.limit_confirm(None)
    tick(desk)
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"hello"]
