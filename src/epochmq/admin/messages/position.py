"""Parses start positions: `first`, `last`, an offset, a number from the end, or a time."""

import datetime
import re
from dataclasses import dataclass
from enum import Enum

from epochmq.base.errors import Refused, UsageError
from epochmq.model.names import check_group, check_topic
from epochmq.model.sql92 import SqlError, compile_filter

_AGO = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class PositionKind(Enum):
    FIRST = "first"
    LAST = "last"
    OFFSET = "offset"
    BACK = "back"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """A start position; `value` is an offset, a number of messages before the end, or wall ms."""

    kind: PositionKind
    value: int = 0


FIRST = StartPosition(PositionKind.FIRST)
LAST = StartPosition(PositionKind.LAST)


def parse(text: str, now_wall_ms: int) -> StartPosition:
    """Parse option `--from`; raises `UsageError` that lists all forms.

    `first`, `last`; `100` is an offset; `-10` the last ten of each queue; `15m` that long ago;
    `@1700000000000` milliseconds since 1970; `2024-05-01T12:00` local time, or with `Z` or a zone.
    """
    if text in ("first", "last"):
        return FIRST if text == "first" else LAST
    if re.fullmatch(r"[0-9]{1,18}", text):
        return StartPosition(PositionKind.OFFSET, int(text))
    if re.fullmatch(r"-[0-9]{1,18}", text):
        return StartPosition(PositionKind.BACK, int(text[1:]))
    if re.fullmatch(r"@[0-9]{1,15}", text):
        return StartPosition(PositionKind.TIME, int(text[1:]))
    if ago := _AGO.fullmatch(text):
        return StartPosition(PositionKind.TIME, now_wall_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    try:
        moment = datetime.datetime.fromisoformat(text)
        return StartPosition(PositionKind.TIME, int(moment.timestamp() * 1_000))
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"--from '{text}' is not a position; write first, last, an offset (100), a number from"
            " the end (-10), how long ago (15m), or a time (2024-05-01T12:00, @1714564800000)"
        ) from None


# Name arguments ------------------------------------------------------------------------------
# Checks names and filters of the command line: a wrong one is a usage error.


def checked_topic(name: str) -> str:
    """Return `name`; raises `UsageError` for an invalid topic name."""
    try:
        check_topic(name)
    except Refused as error:
        raise UsageError(error.remark) from None
    return name


def checked_group(name: str) -> str:
    """Return `name`; raises `UsageError` for an invalid group name."""
    try:
        check_group(name)
    except Refused as error:
        raise UsageError(error.remark) from None
    return name


def checked_sql(text: str) -> str:
    """Return `text`; raises `UsageError` for an invalid SQL92 filter."""
    try:
        compile_filter(text)
    except SqlError as error:
        raise UsageError(f"--sql '{text}': {error}") from None
    return text
