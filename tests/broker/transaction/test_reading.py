"""What is known after a restart, from both queues."""

import pytest
from tests.broker.desk import Desk
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
