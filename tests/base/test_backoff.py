"""A pause starts at its first value, doubles, never shrinks, and has a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.backoff import backoff_ms

FIRST_MS = st.integers(1, 10_000)
MOST_MS = st.integers(1, 3_600_000)
FAILURES = st.integers(0, 1_000_000)


@given(FIRST_MS, MOST_MS)
def test_the_first_pause_is_the_first_value(first_ms: int, most_ms: int) -> None:
    assert backoff_ms(0, first_ms, most_ms) == min(first_ms, most_ms)


@given(FAILURES, FIRST_MS, MOST_MS)
def test_a_pause_doubles_up_to_its_limit(failures: int, first_ms: int, most_ms: int) -> None:
    pause_ms = backoff_ms(failures, first_ms, most_ms)
    assert min(first_ms, most_ms) <= pause_ms <= most_ms
    assert backoff_ms(failures + 1, first_ms, most_ms) == min(2 * pause_ms, most_ms)


def test_pauses_of_a_member_that_stays_away() -> None:
    pauses_ms = [backoff_ms(failures, 200, 5_000) for failures in range(7)]
    assert pauses_ms == [200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    assert backoff_ms(10**9, 1, 600_000) == 600_000


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        backoff_ms(-1, 200, 5_000)
