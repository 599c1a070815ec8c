"""What follows an answer to a pop."""

import pytest

from epochmq.client.core.pop_state import PopStatus, retry_delay_ms, status_of


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, PopStatus.FOUND),
        (209, PopStatus.POLLING_FULL),
        (210, PopStatus.POLLING_NOT_FOUND),
        (19, PopStatus.POLLING_NOT_FOUND),
        (1, None),
        (26, None),
    ],
)
def test_codes(code: int, status: PopStatus | None) -> None:
    assert status_of(code) is status


def test_delays_grow_and_end_at_two_hours() -> None:
    assert [retry_delay_ms(times) for times in (0, 1, 2, 15, 16, 99)] == [
        10_000,
        30_000,
        60_000,
        7_200_000,
        7_200_000,
        7_200_000,
    ]
