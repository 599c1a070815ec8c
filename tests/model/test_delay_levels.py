"""Delay levels."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.model import delay_levels


def test_the_defaults_are_18_levels() -> None:
    assert len(delay_levels.DEFAULT) == 18
    assert delay_levels.DEFAULT[:3] == (1_000, 5_000, 10_000)
    assert delay_levels.DEFAULT[-1] == 7_200_000


def test_units() -> None:
    assert delay_levels.parse(" 1s 2m  3h 4d ") == (1_000, 120_000, 10_800_000, 345_600_000)


@pytest.mark.parametrize("text", ["1", "s", "-1s", "1x", "1.5s", "1s2m", "²s", "1" * 10 + "s"])
def test_a_bad_piece_is_named(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        delay_levels.parse(f"1s {text}")
    assert len(error.value.problems) == 1
    assert repr(text) in error.value.problems[0]


def test_the_number_of_levels_is_bounded() -> None:
    for text in ("", "1s " * (delay_levels.LEVELS_MAX + 1)):
        with pytest.raises(ConfigError, match="levels; give 1 to"):
            delay_levels.parse(text)
