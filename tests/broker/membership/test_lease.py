"""Until when a master may acknowledge."""

from epochmq.broker.membership.lease import FOREVER, Lease


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
