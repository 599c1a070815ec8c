"""The table of living brokers."""

from epochmq.base import limits
from epochmq.controller.liveness import Liveness, LiveProcess

KEY = ("c", "b")


def heard(table: Liveness, number: int, session: int, now: int = 0) -> LiveProcess:
    live = table.heard(KEY, number, session, now, 10_000)
    assert live is not None
    return live


def test_an_entry_is_found_by_group_number_and_connection() -> None:
    table = Liveness()
    live = heard(table, 1, 7)
    assert table.get(KEY, 1) is live
    assert table.of_group(KEY) == {1: live}
    assert table.of_session(7) == [live]
    assert table.get(("c", "x"), 1) is None
    assert table.of_group(("c", "x")) == {}
    assert table.count == 1


def test_closing_the_old_connection_of_a_reconnected_broker_does_nothing() -> None:
    """rocketmq#11045"""
    table = Liveness()
    heard(table, 1, 7)
    live = heard(table, 1, 8)
    assert table.closed(7) == []
    assert not live.closed
    assert table.closed(8) == [live]
    assert live.closed


def test_one_connection_may_carry_several_brokers() -> None:
    table = Liveness()
    both = [heard(table, 1, 7), heard(table, 2, 7)]
    assert table.closed(7) == both


def test_a_heartbeat_brings_a_closed_or_gone_broker_back() -> None:
    table = Liveness()
    live = heard(table, 1, 7)
    table.closed(7)
    live.gone = True
    assert heard(table, 1, 9) is live
    assert not live.closed
    assert not live.gone
    assert table.of_session(9) == [live]


def test_silence_counts_from_when_we_lead() -> None:
    live = LiveProcess(KEY, 1, now=100, timeout_ms=1_000)
    assert live.silent_at(0, 300) == 1_100
    assert live.silent_at(500, 300) == 1_500


def test_a_closed_or_leased_broker_may_be_silent_for_less() -> None:
    live = LiveProcess(KEY, 1, now=100, timeout_ms=1_000)
    live.closed = True
    assert live.silent_at(0, 300) == 400
    live.closed, live.leased = False, True
    assert live.silent_at(0, 300) == 400
    assert live.silent_at(0, 3_000) == 1_100
    live.gone = True
    assert live.silent_at(5_000, 300) == 100


def test_expiry() -> None:
    table = Liveness()
    old, new = heard(table, 1, 7, now=0), heard(table, 2, 8, now=5_000)
    assert table.expire(9_999, 0) == []
    assert table.expire(10_000, 1) == []
    assert table.expire(10_001, 1) == [old]
    assert list(table.all()) == [new]
    assert table.of_session(7) == []
    assert table.count == 1


def test_forgetting() -> None:
    table = Liveness()
    heard(table, 1, 7)
    table.forget(KEY, 1)
    table.forget(KEY, 1)
    assert table.groups == {}
    assert table.closed(7) == []
    assert table.count == 0


def test_the_table_is_bounded() -> None:
    table = Liveness()
    table.count = limits.LIVE_BROKERS_MAX
    assert table.heard(KEY, 1, 7, 0, 1) is None
