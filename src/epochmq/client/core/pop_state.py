"""What a POP consumer does after an answer, and after a listener."""

from enum import Enum

from epochmq.wire.codes import ResponseCode

POP_COUNT = 32
INVISIBLE_MS = 60_000
INVISIBLE_MS_MIN, INVISIBLE_MS_MAX = 5_000, 300_000
POLL_MS = 15_000
POP_TIMEOUT_MS = 25_000
IN_FLIGHT_MAX = 96
"""Messages of one queue that are not acknowledged yet; at that many no more are popped."""

FULL_PAUSE_MS = 3_000
"""After the broker had too many waiters, or could not be asked."""

GIVE_BACK_MS = 1_000
"""Invisible time of what was popped and will not be handled here."""

DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""How long a message that failed stays away, by the times it was handed out before."""


class PopStatus(Enum):
    """The outcome of a pop; the names are RocketMQ's."""

    FOUND = "FOUND"
    POLLING_FULL = "POLLING_FULL"
    POLLING_NOT_FOUND = "POLLING_NOT_FOUND"


_STATUS = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT: PopStatus.POLLING_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.POLLING_NOT_FOUND,
}


def status_of(code: int) -> PopStatus | None:
    """The status behind a response code; None for an error."""
    return _STATUS.get(code)  # type: ignore[call-overload, no-any-return]


def retry_delay_ms(reconsume_times: int) -> int:
    """How long a message that failed is to stay away."""
    return DELAYS_S[min(max(reconsume_times, 0), len(DELAYS_S) - 1)] * 1_000
