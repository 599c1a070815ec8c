"""Attackers who try passwords are slowed down; others are not."""

from epochmq.auth.failed_logins import BLOCK_MS, FORGET_MS, FREE_FAILURES, KEYS_MAX, FailedLogins


def failing(times: int, now: int = 0) -> FailedLogins:
    failures = FailedLogins()
    for _ in range(times):
        failures.failed("alice", "10.0.0.1", now)
    return failures


def test_a_few_failures_are_free() -> None:
    assert not failing(FREE_FAILURES - 1).is_blocked("alice", "10.0.0.1", 0)


def test_many_failures_block_this_user_from_this_address_for_a_while() -> None:
    failures = failing(FREE_FAILURES)
    assert failures.is_blocked("alice", "10.0.0.1", BLOCK_MS - 1)
    assert not failures.is_blocked("alice", "10.0.0.2", 0)
    assert not failures.is_blocked("bob", "10.0.0.1", 0)
    assert not failures.is_blocked("alice", "10.0.0.1", BLOCK_MS)
    failures.failed("alice", "10.0.0.1", BLOCK_MS)
    assert failures.is_blocked("alice", "10.0.0.1", BLOCK_MS)


def test_success_and_time_forget_failures() -> None:
    failures = failing(FREE_FAILURES)
    failures.succeeded("alice", "10.0.0.1")
    assert not failures.is_blocked("alice", "10.0.0.1", 0)
    failures = failing(FREE_FAILURES)
    failures.failed("alice", "10.0.0.1", FORGET_MS)
    assert not failures.is_blocked("alice", "10.0.0.1", FORGET_MS)


def test_names_that_strangers_invent_cost_bounded_memory() -> None:
    failures = FailedLogins()
    for number in range(KEYS_MAX + 10):
        failures.failed(str(number), "10.0.0.1", number)
    assert len(failures) == KEYS_MAX
