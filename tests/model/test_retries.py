"""One rule for dead letters, as a table: limits, and retries below, at and above each limit."""

import pytest

from epochmq.model.group import (
    RETRIES_DEFAULT,
    RETRIES_UNLIMITED,
    broker_limit,
    consumer_limit,
    is_tried_out,
)

NEVER = RETRIES_UNLIMITED


@pytest.mark.parametrize(
    ("allowed", "retries", "dead"),
    [
        (-1, 0, True), (-1, 1, True),
        (0, 0, True), (0, 1, True),
        (1, 0, False), (1, 1, True), (1, 2, True),
        (16, 15, False), (16, 16, True), (16, 17, True),
        (NEVER, 0, False), (NEVER, 1_000_000, False),
    ],
)  # fmt: skip
def test_a_message_is_tried_out_after_as_many_retries_as_allowed(
    allowed: int, retries: int, dead: bool
) -> None:
    assert is_tried_out(retries, allowed) is dead


@pytest.mark.parametrize(
    ("wanted", "unordered", "ordered"),
    [(-1, NEVER, NEVER), (0, 0, 0), (1, 1, 1), (16, 16, 16), (None, RETRIES_DEFAULT, NEVER)],
)
def test_how_many_retries_a_consumer_allows(
    wanted: int | None, unordered: int, ordered: int
) -> None:
    """A POP consumer goes by the same two columns."""
    assert consumer_limit(wanted, ordered=False) == unordered
    assert consumer_limit(wanted, ordered=True) == ordered


@pytest.mark.parametrize(
    ("asked", "limit"), [(None, 3), (-1, -1), (0, 0), (1, 1), (16, 16), (NEVER, NEVER)]
)
def test_a_request_goes_before_the_group(asked: int | None, limit: int) -> None:
    assert broker_limit(asked, 3) == limit


def test_the_default_is_upstream_s() -> None:
    assert (RETRIES_DEFAULT, RETRIES_UNLIMITED) == (16, 2_147_483_647)
