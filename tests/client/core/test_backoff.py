"""Backoff doubles, is bounded, and is never shorter than half its ceiling."""

import random

from hypothesis import given
from hypothesis import strategies as st

from epochmq.client.core.retrying import delay_ms


@given(st.integers(1, 200), st.integers())
def test_delay_is_within_its_bounds(attempt: int, seed: int) -> None:
    delay = delay_ms(attempt, random.Random(seed), first_ms=50, most_ms=3_000)
    ceiling = min(3_000, 50 * 2 ** min(attempt - 1, 16))
    assert ceiling // 2 <= delay <= ceiling
