"""Delays and times as they are written on a command line."""

import datetime

import pytest

from epochmq.admin.messages.transactions import delay, moment
from epochmq.base.errors import UsageError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", (0, 0)),
        ("18", (18, 0)),
        ("250ms", (0, 250)),
        ("90s", (0, 90_000)),
        ("1h30m", (0, 5_400_000)),
        ("2d", (0, 172_800_000)),
    ],
)
def test_delays(text: str, wanted: tuple[int, int]) -> None:
    assert delay(text) == wanted


@pytest.mark.parametrize("text", ["19", "", "-1", "1.5s", "soon", "1h 30m", "9" * 13 + "s"])
def test_what_is_no_delay(text: str) -> None:
    with pytest.raises(UsageError, match="is not a delay"):
        delay(text)


def test_times() -> None:
    assert moment("@1700000000123") == 1_700_000_000_123
    assert moment("2024-05-01T12:00:00+00:00") == 1_714_564_800_000
    local = datetime.datetime(2024, 5, 1, 12).timestamp() * 1000
    assert moment("2024-05-01T12:00") == local


@pytest.mark.parametrize("text", ["noon", "@", "@-1", "2024-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        moment(text)
