"""What a producer makes of an answer: a result, another try, or an error for the caller.

Codes that another broker may not give are tried again; 10, 11 and 12 say
"stored, but not as safely as asked", which is a result.
"""

from enum import Enum

from epochmq.wire.codes import ResponseCode


class SendStatus(Enum):
    """How safely the broker holds the message; the names are RocketMQ's."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendVerdict(Enum):
    """What to do with an answer."""

    STORED = "stored"
    RETRY = "retry"
    ELSEWHERE = "elsewhere"
    """The broker does not take messages now: it is no master, or not yet, or not any more."""
    RAISE = "raise"


_STATUS = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
_RETRIED = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


def judge(code: int) -> SendVerdict:
    """What the response `code` to a send means."""
    if code in _STATUS:
        return SendVerdict.STORED
    if code == ResponseCode.SERVICE_NOT_AVAILABLE:
        return SendVerdict.ELSEWHERE
    return SendVerdict.RETRY if code in _RETRIED else SendVerdict.RAISE


def status_of(code: int) -> SendStatus:
    """The status of a stored message; `code` was judged STORED."""
    return _STATUS[ResponseCode(code)]
