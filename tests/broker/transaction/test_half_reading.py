"""What is known after a restart, from both queues."""

import pytest
from sim.kernel.disk import SimFile
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness
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

from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction.transaction_service import HELD_LOOK_MS
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_one_left_open_can_be_ended_after_a_restart(harness: BrokerHarness) -> None:
    first, second = (harness.client().ask(half(b"%d" % n, f"KEY{n}")) for n in range(2))
    harness.client().ask(end(second, ROLLBACK))
    tick(harness)
    harness = restarted(harness, keep_offsets=False)
    client = harness.client()
    assert client.ask(end(second, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(end(first, COMMIT)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"0"]


def test_nothing_is_ended_before_all_of_the_log_is_shown(harness: BrokerHarness) -> None:
    """What was master a moment ago may have written the real message where nobody sees it yet
    (`python -m sim replay --world secondary --seed 710029`)."""
    client = harness.client()
    answer = client.ask(half())
    harness.store.limit_confirm(harness.store.pointers.appended)
    slow = Slow(harness)
    client.put(end(answer))
    harness.turn()
    slow.answer(held=False)
    become(harness.node, Role.SLAVE)
    tick(harness)
    del harness.node.when_kept
    become(harness.node, Role.MASTER)
    tick(harness)
    client.take()
    assert not harness.node.transactions.ready
    assert (
        harness.node.transactions.next_deadline(harness.clock.now)
        == harness.clock.now + HELD_LOOK_MS
    )
    assert client.ask(end(answer)).code == ResponseCode.SYSTEM_BUSY
    harness.store.limit_confirm(None)
    tick(harness)
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


@pytest.mark.parametrize("leaves_again", [False, True])
def test_old_half_messages_are_read_by_another_thread(
    harness: BrokerHarness, leaves_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [harness.client().ask(half(b"%d" % n, f"KEY{n}")) for n in range(3)]
    harness.client().ask(end(answers[0], ROLLBACK))
    tick(harness)
    harness.store.sync()
    again = BrokerHarness(disk=harness.disk.kill())
    again.topic("T")
    again.evict()
    if leaves_again:
        monkeypatch.setattr(SimFile, "is_in_memory", lambda *_: False)
    service = again.node.transactions
    client = again.client()
    reads = 0
    for _ in range(10):
        tick(again)
        if service.ready:
            break
        assert client.ask(end(answers[1])).code == ResponseCode.SYSTEM_BUSY
        assert service.next_deadline(again.clock.now) == again.clock.now + HELD_LOOK_MS
        reads += again.read_device()
    assert service.ready
    assert reads > 0
    assert client.ask(end(answers[1])).code == ResponseCode.SUCCESS
    assert bodies(again) == [b"1"]


def test_op_messages_and_half_messages_are_both_read_by_the_thread(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first read brings the op messages only; the half messages are in another place."""
    answer = harness.client().ask(half())
    harness.client().ask(end(answer, ROLLBACK))
    tick(harness)
    harness.store.sync()
    again = BrokerHarness(disk=harness.disk.kill())
    again.topic("T")
    answers = iter([False, False, False, False])
    monkeypatch.setattr(SimFile, "is_in_memory", lambda *_: next(answers, True))
    service, reads = again.node.transactions, 0
    for _ in range(10):
        tick(again)
        reads += again.read_device()
    assert service.ready
    assert reads == 2
