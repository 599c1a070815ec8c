"""What controllers count about requests."""

from epochmq.controller.request_counts import LATENCY_US, RequestCounts
from epochmq.wire.codes import RequestCode, ResponseCode

CODE = RequestCode.CONTROLLER_ELECT_MASTER


def test_answers_by_name_and_result() -> None:
    counts = RequestCounts()
    counts.answered(CODE, ResponseCode.SUCCESS, 2)
    counts.answered(CODE, ResponseCode.SYSTEM_ERROR, 0)
    counts.timed_out(CODE)
    name = "controller_elect_master"
    assert counts.requests == {
        (name, "success"): 1,
        (name, "failed"): 1,
        (name, "timeout"): 1,
    }
    assert counts.latency[name].total == 2_000


def test_codes_of_strangers_are_one_name() -> None:
    counts = RequestCounts()
    for code in range(-100, -1):
        counts.answered(code, ResponseCode.SUCCESS, 1)
    assert counts.requests == {("unknown", "success"): 99}
    assert list(counts.latency) == ["unknown"]


def test_bounds() -> None:
    assert LATENCY_US[:4] == (1, 3, 5, 10)
    assert LATENCY_US[-1] == 10_000_000
    assert list(LATENCY_US) == sorted(set(LATENCY_US))
