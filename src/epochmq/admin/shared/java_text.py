"""Formats values like Java, for scripts that read RocketMQ's output."""

import datetime
import json
from collections.abc import Mapping
from typing import Any

import click

from epochmq.base.errors import UsageError

_TIME_FORM = "%Y-%m-%d#%H:%M:%S:%f"

# A message must not move the cursor or rename the window.
_HARMLESS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}


def harmless(text: str) -> str:
    """Return `text` with control characters escaped, except tabs and line ends."""
    return text.translate(_HARMLESS)


def text_of(value: object) -> str:
    """Format a value: booleans in lower case, None as `null`, maps as `{a=b, c=d}`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}={text_of(v)}" for k, v in value.items()) + "}"
    return harmless(str(value))


def fields_of(name: str, values: Mapping[str, object], brackets: str) -> str:
    """`Name{a=1, b=2}`; some of Java's classes print ` [` and `]` in place of the braces."""
    inside = ", ".join(f"{key}={text_of(value)}" for key, value in values.items())
    return f"{name}{brackets[:-1]}{inside}{brackets[-1]}"


def bytes_of(data: bytes) -> str:
    """`[98, -1]`: Java's bytes are signed."""
    return "[" + ", ".join(str(byte - 256 if byte > 127 else byte) for byte in data) + "]"


def moment(wall_ms: int) -> str:
    """`2026-11-22 00:56:59,572` in local time."""
    return f"{second(wall_ms)},{wall_ms % 1000:03d}"


def second(wall_ms: int) -> str:
    """`2026-11-22 00:56:59` in local time."""
    return f"{datetime.datetime.fromtimestamp(wall_ms // 1000):%Y-%m-%d %H:%M:%S}"


def pretty_json(value: Any, depth: int = 0) -> str:
    """Format JSON over several lines as RocketMQ's tool does: tabs, integer keys without quotes."""
    if isinstance(value, Mapping) and value:
        bare = all(isinstance(key, int) for key in value)
        step = "\n" + "\t" * (depth + 1)
        pairs = [f"{_key(k)}:{pretty_json(v, depth + 1)}" for k, v in value.items()]
        start = "" if bare else step
        return "{" + start + ("," + start).join(pairs) + "\n" + "\t" * depth + "}"
    if isinstance(value, list) and value:
        step = "\n" + "\t" * (depth + 1)
        items = [pretty_json(each, depth + 1) for each in value]
        return "[" + step + ("," + step).join(items) + "\n" + "\t" * depth + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: object) -> str:
    return str(key) if isinstance(key, int) else json.dumps(key, ensure_ascii=False)


def parse_time(text: str, now_wall_ms: int) -> int:
    """Parse `now`, a number, or `yyyy-MM-dd#HH:mm:ss:SSS` in local time; returns wall ms."""
    if text == "now":
        return now_wall_ms
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return round(datetime.datetime.strptime(text, _TIME_FORM).timestamp() * 1000)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time; write now, milliseconds since 1970, or"
            " 2024-05-01#12:00:00:000 in local time"
        ) from None


def to_moment(
    ctx: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """Parse the value of a time option (see `parse_time`): (the text, wall ms)."""
    if value is None:
        return None
    now = round(datetime.datetime.now().timestamp() * 1000)
    try:
        return value.strip(), parse_time(value.strip(), now)
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, option) from None
