"""Leases after the machine stood still."""

from tests.broker.group.dialogue import LEASE_MS, Dialogue, group

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.lease import Lease
from epochmq.broker.group.membership_effects import Question


def test_a_lease_is_dropped_and_none_that_was_asked_for_before_counts() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.core.look_at_clocks(talk.now, talk.wall)
    talk.tick(talk.now + 400)
    assert talk.pending(Question.HEARTBEAT, "c:1")
    assert talk.core.lease.valid(talk.now)
    old = talk.pending(Question.HEARTBEAT, "c:1")[-1]
    assert not talk.core.look_at_clocks(talk.now, talk.wall + 400)
    talk.now += 1
    assert talk.core.look_at_clocks(talk.now, talk.wall + 401 + 5_000)
    assert not talk.core.lease.valid(talk.now)
    assert talk.core.hold_span_ms() == 0
    assert talk.core.is_master, "it may go on with a new lease"
    talk.lease(1)
    assert old not in talk.asks
    assert not talk.core.lease.valid(talk.now), "the answer to a question of before"
    talk.tick(talk.now)
    talk.lease(1)
    assert talk.core.lease.valid(talk.now)


def test_past_the_lease_nothing_goes_on_either() -> None:
    """Who was heard lately was heard on the clock that stood still (ADR 0044)."""
    talk = Dialogue.of()
    talk.master()
    talk.tick(talk.now + 1000)
    talk.beat(leaseMillis=LEASE_MS, wholeSetMayHold=True, **group(1, 1, None, 1))
    assert talk.core.hold_span_ms() == LEASE_MS
    talk.core.look_at_clocks(talk.now, talk.wall)
    talk.core.look_at_clocks(talk.now, talk.wall + 3_000)
    assert talk.core.hold_span_ms() == 0


def test_where_controllers_give_no_leases_there_is_none_to_drop() -> None:
    lease = Lease()
    lease.is_supported(False)
    lease.drop(5)
    assert lease.until_ms == FOREVER
