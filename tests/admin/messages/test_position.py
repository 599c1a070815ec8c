"""Where reading begins."""

import datetime

import pytest

from epochmq.admin.messages.position import FIRST, LAST, PositionKind, StartPosition, parse
from epochmq.base.errors import UsageError

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("first", FIRST),
        ("last", LAST),
        ("0", StartPosition(PositionKind.OFFSET, 0)),
        ("12", StartPosition(PositionKind.OFFSET, 12)),
        ("-10", StartPosition(PositionKind.BACK, 10)),
        ("15m", StartPosition(PositionKind.TIME, NOW - 900_000)),
        ("2d", StartPosition(PositionKind.TIME, NOW - 2 * 86_400_000)),
        ("@1699999999999", StartPosition(PositionKind.TIME, 1_699_999_999_999)),
        ("2023-11-14T22:13:20Z", StartPosition(PositionKind.TIME, NOW)),
        ("2023-11-14T23:13:20+01:00", StartPosition(PositionKind.TIME, NOW)),
    ],
)
def test_forms(text: str, position: StartPosition) -> None:
    assert parse(text, NOW) == position


def test_a_time_without_zone_is_local() -> None:
    expected = datetime.datetime(2024, 5, 1, 12).timestamp() * 1_000
    assert parse("2024-05-01T12:00", NOW) == StartPosition(PositionKind.TIME, int(expected))


@pytest.mark.parametrize("text", ["", "frist", "1.5", "5x", "2024-13-01", "--1", "@x"])
def test_what_is_none_says_what_would_be(text: str) -> None:
    with pytest.raises(UsageError, match="write first, last, an offset"):
        parse(text, NOW)
