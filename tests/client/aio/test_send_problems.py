"""What a send raises after several tries."""

import pytest

from epochmq.base.errors import (
    EpochError,
    NotFound,
    NotReachable,
    Outcome,
    Refused,
    UsageError,
)
from epochmq.client.aio.in_flight import Deadline, LoopTime
from epochmq.client.aio.send_problems import NoRouteInTime, explained, more_telling, worse
from epochmq.wire.codes import ResponseCode

LOST = NotReachable("no answer", Outcome.UNKNOWN)
NO_ROUTE = NotReachable("no route")


class StalledTime(LoopTime):
    """The event loop was blocked for so long."""

    __slots__ = ("_stalled",)

    def __init__(self, stalled_ms: int) -> None:
        super().__init__(lambda: 0)
        self._stalled = stalled_ms

    def stalled_ms(self, now: int) -> int:
        return self._stalled


def deadline(stalled_ms: int) -> Deadline:
    return Deadline(StalledTime(stalled_ms), 0, 1_000, 0)


@pytest.mark.parametrize(
    ("tries", "outcome"),
    [
        ([NO_ROUTE], Outcome.NOT_DONE),
        ([NO_ROUTE, LOST], Outcome.UNKNOWN),
        ([LOST, NO_ROUTE], Outcome.UNKNOWN),
        ([Refused(ResponseCode.SYSTEM_BUSY, "busy")], Outcome.NOT_DONE),
        ([Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "no"), NO_ROUTE], Outcome.UNKNOWN),
    ],
)
def test_one_lost_answer_makes_the_outcome_unknown(
    tries: list[EpochError], outcome: Outcome
) -> None:
    found = Outcome.NOT_DONE
    for error in tries:
        found = worse(found, error)
    assert found is outcome
    raised = explained(tries[-1], deadline(0), found)
    assert type(raised) is type(tries[-1])
    assert (str(raised), raised.outcome) == (str(tries[-1]), outcome)


def test_a_blocked_event_loop_is_named() -> None:
    raised = explained(NO_ROUTE, deadline(600), Outcome.NOT_DONE)
    assert str(raised) == (
        "no route; this process kept its event loop from running for 600 ms of that time"
    )


def test_the_end_of_the_time_explains_less_than_what_came_before() -> None:
    late = NoRouteInTime("not in time")
    assert more_telling(LOST, late) is LOST
    assert more_telling(LOST, NO_ROUTE) is NO_ROUTE
    assert more_telling(None, late) is late


def test_which_errors_are_worth_a_retry() -> None:
    assert LOST.retriable
    for code in ResponseCode:
        busy = code.name in ("SYSTEM_BUSY", "SERVICE_NOT_AVAILABLE", "SLAVE_NOT_AVAILABLE")
        assert Refused(code, "").retriable == (busy or code.name == "GO_AWAY"), code
    assert not NotFound("").retriable
    assert not UsageError("").retriable
