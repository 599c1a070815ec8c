from epochmq.base import log_throttle
from epochmq.base.log_throttle import LogThrottle, also_left_out


def test_one_line_a_period_and_the_next_one_counts_the_others() -> None:
    lines = LogThrottle(1_000)
    assert [lines.left_out("a", now) for now in (0, 1, 999, 1_000, 1_500)] == [
        0,
        None,
        None,
        2,
        None,
    ]
    assert lines.left_out("b", 1_500) == 0


def test_the_peers_that_are_remembered_are_bounded() -> None:
    lines = LogThrottle(1_000)
    for number in range(3 * log_throttle.KEYS_MAX):
        assert lines.left_out(str(number), 0) == 0
    assert len(lines._last) == log_throttle.KEYS_MAX


def test_how_a_line_ends() -> None:
    assert also_left_out(0) == ""
    assert "7 more" in also_left_out(7)
