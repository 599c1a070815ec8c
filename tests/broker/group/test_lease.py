"""Until when a master may acknowledge."""

from tests.broker.group.dialogue import LEASE_MS, Dialogue, answer, group

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.lease import Lease
from epochmq.broker.group.membership_effects import Question
from epochmq.wire.codes import ResponseCode as Code


def test_nothing_is_held_before_something_is_granted() -> None:
    lease = Lease()
    assert not lease.valid(0)
    lease.granted(100, 2000)
    assert lease.valid(2099)
    assert not lease.valid(2100)


def test_controllers_without_leases_fence_nobody() -> None:
    lease = Lease()
    lease.is_supported(False)
    assert lease.until_ms == FOREVER
    lease.begin()
    assert lease.valid(FOREVER - 1)


def test_controllers_that_learned_to_give_leases_end_the_endless_one() -> None:
    lease = Lease()
    lease.is_supported(False)
    lease.is_supported(True)
    assert not lease.valid(0)
    lease.is_supported(False)
    lease.granted(5, 10)
    assert lease.until_ms == 15


def test_a_new_role_begins_without() -> None:
    lease = Lease()
    lease.granted(0, 2000)
    lease.begin()
    assert not lease.valid(1)


def test_given_back_is_gone() -> None:
    lease = Lease()
    lease.granted(0, 2000)
    lease.give_back()
    assert not lease.valid(1)


def test_leave_to_go_on_past_the_end_comes_with_a_lease_and_goes_with_it() -> None:
    """ADR 0044."""
    lease = Lease()
    lease.granted(0, 2000, may_hold=True)
    assert lease.hold_span_ms == 2000
    lease.granted(10, 2000)
    assert lease.hold_span_ms == 0
    lease.granted(20, 2000, may_hold=True)
    lease.begin()
    assert lease.hold_span_ms == 0
    lease.granted(30, 2000, may_hold=True)
    lease.give_back()
    assert lease.hold_span_ms == 0


def test_an_endless_lease_has_no_past() -> None:
    lease = Lease()
    lease.granted(0, 2000, may_hold=True)
    lease.is_supported(False)
    assert lease.hold_span_ms == 0


def test_a_master_may_go_on_past_its_lease_in_the_epoch_it_was_given_in() -> None:
    """ADR 0044."""
    talk = Dialogue.of()
    talk.master()
    assert talk.core.hold_span_ms() == 0
    talk.tick(talk.now + 1000)
    talk.beat(leaseMillis=LEASE_MS, wholeSetMayHold=True, **group(1, 1, None, 1))
    assert talk.core.hold_span_ms() == LEASE_MS
    talk.now += 10 * LEASE_MS
    talk.tick()
    assert not talk.core.lease.valid(talk.now)
    assert talk.core.hold_span_ms() == LEASE_MS
    talk.notice(**group(2, 2, (1, 2), 2))
    assert talk.core.hold_span_ms() == 0


def test_controllers_without_leases_are_only_registered_with_again() -> None:
    """RocketMQ's: their masters hold no leases, and nothing ends with them."""
    talk = Dialogue.of()
    talk.master()
    talk.core.lease.is_supported(False)
    talk.beat_refused(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    assert talk.core.is_master
    assert talk.pending(Question.REGISTER)


def test_an_answer_overtaken_by_a_later_one_does_not_shorten_the_lease() -> None:
    talk = Dialogue.of()
    talk.master()
    for _ in range(2):
        talk.now += 400
        talk.tick()
    first, second = talk.pending(Question.HEARTBEAT, "c:1")[-2:]
    granted = answer(0, isLeader=True, leaseSupported=True, leaseMillis=2000, **group(1, 1))
    for ask in (second, first):
        talk.take(talk.core.answered(ask.tag, granted, talk.now))
    assert talk.core.lease.until_ms == second.tag.sent_at_ms + 2000


def test_a_lease_counts_from_before_the_heartbeat_was_sent() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.forget_beats()
    talk.now += 400
    talk.tick()
    sent = talk.now
    talk.now += 900
    talk.lease(1)
    assert talk.core.lease.until_ms == sent + LEASE_MS
    assert talk.core.lease.valid(sent + LEASE_MS - 1)
    assert not talk.core.lease.valid(sent + LEASE_MS)


def test_a_lease_for_another_broker_is_none() -> None:
    talk = Dialogue.of()
    talk.master()
    until = talk.core.lease.until_ms
    talk.now += 400
    talk.tick()
    talk.beat(leaseMillis=9_000, masterBrokerId=2, masterEpoch=1, syncStateSetEpoch=1)
    assert talk.core.lease.until_ms == until


def test_a_master_holds_no_lease_before_its_first_heartbeat_as_master() -> None:
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(1, 1, (1,)))
    talk.switched()
    assert not talk.core.lease.valid(talk.now)
    assert talk.pending(Question.HEARTBEAT, "c:1")[-1].tag.epoch == 1
