"""When a lease may be given, and when its holder may be replaced."""

from epochmq.controller import liveness
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica
from epochmq.controller.liveness import LiveProcess, Times, held_until, may_hold

TIMES = Times(lease_ms=2_000, skew_ms=100, timeout_ms=10_000)


def group() -> BrokerGroup:
    return BrokerGroup(
        "c", "b", replicas={1: BrokerReplica(1, "h:1", session="s")}, master=1, epoch=3
    )


def live(heard: int = 1_000, **fields: object) -> LiveProcess:
    one = LiveProcess(("c", "b"), 1, heard, 10_000)
    one.leased = True
    one.session = "s"
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def dead_at(group: BrokerGroup, live: LiveProcess | None, since: int, times: Times) -> int:
    held = held_until(live, since, times.lease_ms, times.skew_ms)
    return liveness.dead_at(group, live, since, held, times)


def test_only_the_master_in_its_epoch_and_process_gets_a_lease() -> None:
    assert may_hold(group(), live(), 3)
    assert not may_hold(group(), live(), 2)
    assert not may_hold(group(), live(), 4)
    assert not may_hold(group(), live(), None)
    assert not may_hold(group(), live(id=2), 3)
    assert not may_hold(group(), live(resigned=True), 3)
    assert not may_hold(group(), live(leased=False), 3)
    assert not may_hold(group(), live(session="new"), 3)
    headless = group()
    headless.master = None
    assert not may_hold(headless, live(), 3)


def test_a_lease_ends_with_its_margin_and_a_new_leader_presumes_one() -> None:
    assert held_until(live(lease_until=9_000), 0, 2_000, 100) == 9_100
    assert held_until(live(), 5_000, 2_000, 100) == 7_100
    assert held_until(None, 5_000, 2_000, 100) == 7_100


def test_gone_resigned_and_older_brokers_hold_no_lease() -> None:
    for fields in ({"gone": True}, {"resigned": True}, {"leased": False}):
        assert held_until(live(lease_until=9_000, **fields), 5_000, 2_000, 100) == 0


def test_a_leased_master_is_dead_when_its_lease_is_over_and_it_is_silent() -> None:
    assert dead_at(group(), live(lease_until=3_500), 0, TIMES) == 3_600
    assert dead_at(group(), live(heard=9_000, lease_until=3_500), 0, TIMES) == 11_000


def test_a_master_known_to_be_gone_is_dead_at_once() -> None:
    assert dead_at(group(), live(lease_until=3_500, gone=True), 0, TIMES) == 0
    assert dead_at(group(), live(lease_until=3_500, resigned=True), 0, TIMES) == 0


def test_a_closed_connection_alone_waits_the_lease_out() -> None:
    assert dead_at(group(), live(lease_until=3_500, closed=True), 0, TIMES) == 3_600


def test_a_master_without_leases_has_its_whole_timeout() -> None:
    stock = live(leased=False)
    assert dead_at(group(), stock, 0, TIMES) == 11_000
    assert dead_at(group(), stock, 5_000, TIMES) == 15_000
    stock.closed = True
    assert dead_at(group(), stock, 0, TIMES) == 3_000


def test_a_master_never_heard_of_has_the_grace_of_a_new_leader() -> None:
    assert dead_at(group(), None, 5_000, TIMES) == 15_000


def test_no_master_is_no_life() -> None:
    headless = group()
    headless.master = None
    assert dead_at(headless, live(), 5_000, TIMES) == 0
