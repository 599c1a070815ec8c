"""What a consumer does after a pull was answered."""

from dataclasses import dataclass
from enum import Enum

from epochmq.wire.codes import ResponseCode

RETRY_AFTER_ERROR_MS = 200
"""The first pause; it doubles up to Java's 3 s. Who lost a broker finds the one that stands in for
it, or the next master, within a second."""
FULL_PAUSE_MS = 50
NO_LOCK_PAUSE_MS = 3_000


class PullStatus(Enum):
    """The outcome of a pull; the names are RocketMQ's."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


def status_of(code: int) -> PullStatus | None:
    """The status behind a response code; None for an error."""
    return _STATUS.get(code)  # type: ignore[call-overload, no-any-return]


class StartPoint(Enum):
    """Where a group without a committed offset begins."""

    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    LAST = "CONSUME_FROM_LAST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(slots=True)
class Cursor:
    """Where the next pull of one queue begins and which replica it goes to."""

    next_offset: int
    broker_id: int = 0

    def found(self, next_offset: int, suggested_broker_id: int) -> None:
        """The pull was answered; go on behind it, at the replica that the broker suggests."""
        self.next_offset = next_offset
        self.broker_id = suggested_broker_id
