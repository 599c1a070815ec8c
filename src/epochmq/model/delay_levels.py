"""Delay levels of scheduled messages; level 1 is the first one of the list."""

import re

from epochmq.base.errors import ConfigError

DEFAULT_TEXT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVELS_MAX = 128
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_level = re.compile(r"([0-9]{1,9})([smhd])").fullmatch


def parse(text: str) -> tuple[int, ...]:
    """Return the delays in milliseconds of level 1, 2, ...

    Raises:
        ConfigError: with one line for each piece that is not a delay.
    """
    pieces = text.split()
    found = [_level(piece) for piece in pieces]
    problems = [
        f"delay level {piece!r} is not a number with s, m, h or d, as in '10s'"
        for piece, match in zip(pieces, found, strict=True)
        if match is None
    ]
    if not 0 < len(pieces) <= LEVELS_MAX:
        problems.append(f"{len(pieces)} delay levels; give 1 to {LEVELS_MAX} separated by spaces")
    if problems:
        raise ConfigError(problems)
    return tuple(int(match[1]) * _UNIT_MS[match[2]] for match in found if match)


DEFAULT = parse(DEFAULT_TEXT)
