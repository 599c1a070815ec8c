"""Members that come and go: the verdict, and a short run with real processes."""

from pathlib import Path

import pytest
from chaos.members import Handled, judge, read_calls, run


def test_calls_of_a_killed_member_are_read(tmp_path: Path) -> None:
    file = tmp_path / "member-0"
    file.write_text("begin 0:0 10\nend 0:0 20\nbegin 1:0 30\nbegin 0:")
    assert read_calls(file) == [Handled(0, 0, 10, 20), Handled(1, 0, 30, None)]


def test_a_message_that_nobody_finished_is_missing() -> None:
    calls = [Handled(0, 0, 1, 2), Handled(0, 1, 3, None)]
    assert judge(calls, [2], ordered=True).missing == [(0, 1)]
    assert judge([*calls, Handled(0, 1, 5, 6)], [2], ordered=True).missing == []


def test_repetitions_are_counted_and_may_go_back() -> None:
    calls = [Handled(0, n, i, i + 1) for i, n in enumerate([0, 1, 2, 1, 2, 3])]
    verdict = judge(calls, [4], ordered=True)
    assert (verdict.distinct, verdict.repeated, verdict.out_of_order) == (4, 2, [])


def test_a_skipped_message_is_out_of_order() -> None:
    calls = [Handled(0, n, i, i + 1) for i, n in enumerate([0, 2, 1])]
    assert judge(calls, [3], ordered=True).out_of_order == [(0, 2, 1)]
    assert judge(calls, [3], ordered=False).out_of_order == []


def test_two_members_of_one_queue_at_the_same_time_are_found() -> None:
    calls = [Handled(0, 0, 0, 10), Handled(0, 0, 5, 15)]
    assert judge(calls, [1], ordered=True).overlapping == [(0, 0, 0)]
    assert judge([Handled(0, 0, 0, None), calls[1]], [1], ordered=True).overlapping == []


@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("ordered", "kills"), [(True, 0.0), (False, 0.5)])
def test_six_members_come_and_go(ordered: bool, kills: float) -> None:
    """Without kills if ordered: the locks of a killed member live for a minute."""
    verdict, members, sent = run(6, 32, 8.0, every_s=1.5, ordered=ordered, kills=kills, seed=3)
    assert sent > 100
    assert members.joined > 8
    assert verdict.missing == []
    assert verdict.out_of_order == []
    assert verdict.overlapping == []
