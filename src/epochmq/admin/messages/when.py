"""When a message is to be delivered: a level, a duration, a time. Pure."""

import datetime
import re

from epochmq.base.errors import UsageError

LEVEL_MAX = 18
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def delay(text: str) -> tuple[int, int]:
    """(level, milliseconds), one of them 0: `3` is a level, `1500ms`, `90s` or `1h30m` exact.

    Errors: `UsageError`.
    """
    if re.fullmatch(r"[0-9]{1,3}", text) and int(text) <= LEVEL_MAX:
        return int(text), 0
    if _WHOLE.fullmatch(text):
        return 0, sum(int(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text))
    raise UsageError(
        f"'{text}' is no delay; write a duration (1500ms, 90s, 1h30m) or a level from 0 to"
        f" {LEVEL_MAX}"
    )


def moment(text: str) -> int:
    """Wall ms: `@1700000000000`, or ISO 8601 in local time, or with `Z` or a zone.

    Errors: `UsageError`.
    """
    if re.fullmatch(r"@[0-9]{1,15}", text):
        return int(text[1:])
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"'{text}' is no time; write 2024-05-01T12:00, or @ and milliseconds since 1970"
        ) from None
