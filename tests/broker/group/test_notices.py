"""Notices of another role (1008): a reason to ask, and nothing more."""

import pytest
from tests.broker.group.dialogue import CONTROLLERS, Dialogue, group

from epochmq.base.limits import EPOCH_MAX
from epochmq.broker.group.group_membership import NOTICE_MS
from epochmq.broker.group.membership_effects import (
    BecomeFollower,
    BecomeMaster,
    Question,
    SaveKnown,
)


def test_a_notice_makes_it_ask_and_is_not_believed() -> None:
    """Whoever reaches the port can send one."""
    talk = Dialogue.of()
    talk.master()
    talk.asks.clear()
    talk.now += 5
    talk.take(talk.core.notified(talk.now))
    assert talk.pending(Question.REPLICA_INFO)
    assert {ask.address for ask in talk.pending(Question.HEARTBEAT)} == set(CONTROLLERS)
    assert talk.core.is_master
    talk.reply(Question.REPLICA_INFO, **group(2, 2, (2,)))
    assert talk.last(BecomeFollower).epoch == 2


def test_any_number_of_notices_asks_once_in_a_while() -> None:
    talk = Dialogue.of()
    talk.master()
    asked = 0
    for _ in range(200):
        talk.now += 1
        for _ in range(10):
            talk.take(talk.core.notified(talk.now))
        asked += len(talk.asks)
        for ask in list(talk.asks):
            talk.reply(ask.tag.kind, address=ask.address, isLeader=ask.address == "c:1")
    assert asked <= (1 + len(CONTROLLERS)) * 2 * 200 // NOTICE_MS


def test_a_notice_is_not_held_up_by_a_controller_that_does_not_answer() -> None:
    """The one that led hangs; the new one answers a heartbeat, and is asked."""
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.notified(talk.now))
    assert talk.pending(Question.REPLICA_INFO, "c:1")
    talk.forget_beats()
    talk.now += NOTICE_MS
    talk.take(talk.core.notified(talk.now))
    fields = {"isLeader": True, "leaseSupported": True, "controllerTerm": 2, **group(2, 1)}
    talk.reply(Question.HEARTBEAT, address="c:2", **fields)
    talk.reply(Question.REPLICA_INFO, address="c:2", **group(2, 1, (1, 2)))
    assert talk.last(BecomeMaster).epoch == 2


@pytest.mark.parametrize("epoch", [-1, EPOCH_MAX + 1, 2**31 - 1])
def test_an_epoch_that_is_none_is_believed_of_nobody(epoch: int) -> None:
    talk = Dialogue.of()
    talk.master()
    saved = talk.count(SaveKnown)
    talk.notice(**group(epoch, 2, (2,)))
    talk.tick(talk.now + 400)
    talk.beat(**group(epoch, 2))
    assert talk.core.is_master
    assert talk.count(SaveKnown) == saved
