"""The error of a send whose tries all failed: the most telling problem, and what is known."""

from epochmq.base.errors import EpochError, NotReachable, Outcome, Refused
from epochmq.client.aio.in_flight import Deadline


class NoRouteInTime(NotReachable):
    """The timeout ended before the name servers answered."""


def more_telling(before: EpochError | None, error: EpochError) -> EpochError:
    """Choose which problem of two tries is raised.

    The last try may fail only because the time is over. Then the problem of an earlier try explains
    more.
    """
    return before if before is not None and isinstance(error, NoRouteInTime) else error


def worse(outcome: Outcome, error: EpochError) -> Outcome:
    """Return what is known after one more try: one lost answer is enough for UNKNOWN."""
    return outcome if error.outcome is Outcome.NOT_DONE else error.outcome


def explained(problem: EpochError, deadline: Deadline, outcome: Outcome) -> EpochError:
    """Return `problem` with the outcome of all tries, and with a note if this process blocked its
    event loop for half of the timeout.
    """
    if isinstance(problem, Refused):
        return Refused(problem.code, problem.remark, outcome)
    text, stalled_ms = str(problem), deadline.stalled_ms()
    if 2 * stalled_ms >= deadline.timeout_ms:
        text += f"; this process kept its event loop from running for {stalled_ms} ms of that time"
    return NotReachable(text, outcome)
