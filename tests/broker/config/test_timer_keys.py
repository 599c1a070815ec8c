"""Options of messages for an exact time."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.config.options import load_options


def test_they_are_read_under_upstreams_names() -> None:
    options = load_options(
        {
            "timerWheelEnable": "false",
            "timerPrecisionMs": "200",
            "timerMaxDelaySec": "60",
            "timerRollWindowSlot": "100",
            "timerEnableDisruptor": "true",
        },
        env={},
    )
    assert not options.timer_wheel_enable
    assert (options.timer_precision_ms, options.timer_roll_window_slot) == (200, 100)
    assert options.timer_max_delay_sec == 60


def test_a_second_must_be_a_multiple_of_the_precision() -> None:
    with pytest.raises(ConfigError, match="one of 100, 200, 500, 1000"):
        load_options({"timerPrecisionMs": "300"}, env={})
