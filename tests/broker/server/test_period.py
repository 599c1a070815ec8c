"""Calls that a broker repeats."""

import pytest

from epochmq.base.errors import DiskFull
from epochmq.broker.server.period import Period


def test_a_call_in_each_period() -> None:
    calls: list[int] = []
    period = Period(100, 1_000, lambda: calls.append(len(calls)))
    for now in (1_000, 1_099, 1_100, 1_150, 1_199, 1_200, 5_000, 5_001):
        period.tick(now)
    assert len(calls) == 3


def test_a_disk_error_is_logged_and_the_call_repeated(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise DiskFull("no space")

    period = Period(100, 0, fail)
    period.tick(100)
    period.tick(200)
    assert caplog.text.count("cannot save: no space") == 2
