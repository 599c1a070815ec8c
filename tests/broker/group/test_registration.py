"""Who is told what, and when."""

import pytest

from epochmq.broker.group.registration import (
    FIRST_AGAIN_MS,
    PART_TOPICS,
    PERIOD_MAX_MS,
    RETRY_MAX_MS,
    RETRY_MS,
    RegisterAt,
    RegistrationPlan,
    parts_of,
)
from epochmq.model.data_version import DataVersion

A, B = "a:9876", "b:9876"


def started(*addresses: str) -> RegistrationPlan:
    core = RegistrationPlan(addresses, 30_000, 0)
    for call in core.due(0):
        core.done(call, True, 0)
    return core


def test_everything_at_start_then_after_10_s_then_by_period() -> None:
    core = RegistrationPlan((A, B), 30_000, 0)
    assert core.addresses == (A, B)
    assert core.due(0) == [RegisterAt(A, None), RegisterAt(B, None)]
    assert core.due(0) == []
    assert core.next_deadline() is None
    core.done(RegisterAt(A, None), True, 5)
    assert core.next_deadline() == 5 + FIRST_AGAIN_MS
    assert core.due(5 + FIRST_AGAIN_MS) == [RegisterAt(A, None)]
    core.done(RegisterAt(A, None), True, 20_000)
    assert core.next_deadline() == 50_000


def test_the_period_is_clamped() -> None:
    core = RegistrationPlan((A,), 10_000_000, 0)
    for now in (0, FIRST_AGAIN_MS):
        core.done(core.due(now)[0], True, now)
    assert core.next_deadline() == FIRST_AGAIN_MS + PERIOD_MAX_MS


def test_a_changed_topic_goes_out_at_once_and_alone() -> None:
    core = started(A, B)
    core.topics_changed(["T", "U", "T"])
    assert core.due(1) == [RegisterAt(A, ("T", "U")), RegisterAt(B, ("T", "U"))]
    core.done(RegisterAt(A, ("T", "U")), True, 2)
    assert core.next_deadline() == FIRST_AGAIN_MS
    assert core.due(2) == []


def test_a_server_that_knows_nothing_gets_no_single_topic() -> None:
    core = RegistrationPlan((A,), 30_000, 0)
    core.done(core.due(0)[0], False, 0)
    core.topics_changed(["T"])
    assert core.due(1) == []
    assert core.due(RETRY_MS) == [RegisterAt(A, None)]


def test_what_changes_during_a_call_is_sent_after_it() -> None:
    core = RegistrationPlan((A,), 30_000, 0)
    call = core.due(0)[0]
    core.topics_changed(["T"])
    assert core.due(1) == []
    core.done(call, True, 2)
    assert core.due(2) == [RegisterAt(A, None)]


def test_what_changed_during_a_call_is_not_settled_by_that_call() -> None:
    core = RegistrationPlan(["a:1"], 30_000, 0)
    (call,) = core.due(0)
    core.topics_changed(["T"])
    assert core.due(1) == []
    core.done(call, True, 2)
    assert not core.is_settled()
    (again,) = core.due(2)
    assert not core.is_settled()
    core.done(again, True, 3)
    assert core.is_settled()


def test_failures_are_repeated_ever_more_slowly_in_full() -> None:
    core = started(A)
    core.topics_changed(["T"])
    call = core.due(1)[0]
    now = 1
    pauses = []
    for _ in range(7):
        core.done(call, False, now)
        deadline = core.next_deadline()
        assert deadline is not None
        pauses.append(deadline - now)
        now = deadline
        call = core.due(now)[0]
        assert call.topics is None
    assert pauses == [RETRY_MS, RETRY_MS * 2] + [RETRY_MAX_MS] * 5
    assert core.statistics() == {"servers": 1, "known": 0}


def test_everything_changed_registers_in_full_now() -> None:
    core = started(A)
    core.everything_changed()
    assert core.due(1) == [RegisterAt(A, None)]


def test_a_server_whose_connection_broke_is_told_everything_again() -> None:
    core = started(A, B)
    core.lost(A, 100)
    core.lost(A, 200)  # known as gone already
    core.lost("c:1", 100)  # none of ours
    assert core.next_deadline() == 100 + RETRY_MS
    assert core.due(100 + RETRY_MS) == [RegisterAt(A, None)]


def test_a_name_server_that_forgot_us_is_told_everything_now() -> None:
    core = started(A, B)
    core.forgotten(A, 10)
    core.forgotten("x:1", 10)
    assert core.next_deadline() == 10
    assert core.due(10) == [RegisterAt(A, None)]
    core.forgotten(A, 11)
    assert core.due(11) == []


def test_a_name_server_that_is_back_after_many_failures_is_told_at_once() -> None:
    """H2; else a master that comes back meanwhile takes this broker for gone (INV-33)."""
    core = started(A)
    core.lost(A, 100)
    now = 100 + RETRY_MS
    for _ in range(6):
        core.done(core.due(now)[0], False, now)
        deadline = core.next_deadline()
        assert deadline is not None
        now = deadline
    core.done(core.due(now)[0], False, now)
    assert core.next_deadline() == now + RETRY_MAX_MS
    core.forgotten(A, now + 5)
    assert core.due(now + 5) == [RegisterAt(A, None)]


def test_the_period_may_change_while_it_runs() -> None:
    core = started(A)
    core.due(FIRST_AGAIN_MS)
    core.done(RegisterAt(A, None), True, FIRST_AGAIN_MS)
    assert core.next_deadline() == FIRST_AGAIN_MS + 30_000
    core.change_period(20_000, 15_000)
    assert core.next_deadline() == 35_000
    core.change_period(60_000, 16_000)
    assert core.next_deadline() == 35_000
    core.due(35_000)
    core.done(RegisterAt(A, None), True, 35_000)
    assert core.next_deadline() == 95_000


@pytest.mark.parametrize("is_all", [True, False])
@pytest.mark.parametrize("count", [0, 1, PART_TOPICS, PART_TOPICS + 1, 3 * PART_TOPICS])
def test_parts_name_every_topic_once(count: int, is_all: bool) -> None:
    """And a table that fits into one request is not a part."""
    topics, version = [f"T{number}" for number in range(count)], DataVersion(3, 7, 1_000)
    parts = parts_of(topics, version, is_all=is_all)
    assert [name for part in parts for name in part.topics] == topics
    assert all(part.is_part == (count > PART_TOPICS or not is_all) for part in parts)
    versions = [part.version for part in parts]
    assert versions[-1] == version
    assert len(set(versions)) == len(parts)
    assert all(each.state_version == version.state_version for each in versions)
