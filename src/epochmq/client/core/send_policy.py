"""The decisions of a producer: what an answer means, which brokers to avoid, which queue to use.

Codes that another broker may not return are tried again. Codes 10, 11 and 12 mean "stored, but less
safely than asked", which is a result.
"""

from collections.abc import Sequence
from enum import Enum
from zlib import crc32

from epochmq.base.ports import Rng
from epochmq.model.topic import PERM_WRITE, MessageQueue, TopicRouteData
from epochmq.wire.codes import ResponseCode


class SendStatus(Enum):
    """How safely the broker holds the message, by RocketMQ's names."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendVerdict(Enum):
    """What to do after an answer."""

    STORED = "stored"
    RETRY = "retry"
    ELSEWHERE = "elsewhere"
    """The broker takes no messages now, because it is not a master."""
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
    """Return what the response `code` to a send means."""
    if code in _STATUS:
        return SendVerdict.STORED
    if code == ResponseCode.SERVICE_NOT_AVAILABLE:
        return SendVerdict.ELSEWHERE
    return SendVerdict.RETRY if code in _RETRIED else SendVerdict.RAISE


def status_of(code: int) -> SendStatus:
    """Return the status of a stored message; `judge(code)` is STORED."""
    return _STATUS[ResponseCode(code)]


# Latency fault tolerance ---------------------------------------------------------------------
# Which brokers to avoid for a while, as in RocketMQ.
#
# A slow or failed try makes its broker avoided for a time that grows with the latency. If every
# broker is avoided, any of them is used.


LATENCIES_MS = (50, 100, 550, 1_000, 2_000, 3_000, 15_000)
UNAVAILABLE_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
FAILED_LATENCY_MS = 30_000
"""A failed try counts as a latency of this length."""


def penalty_ms(latency_ms: int) -> int:
    """Return how long a broker with this latency is avoided, in milliseconds."""
    for bound, penalty in zip(reversed(LATENCIES_MS), reversed(UNAVAILABLE_MS), strict=True):
        if latency_ms >= bound:
            return penalty
    return 0


class FaultTable:
    """Holds until when each broker is avoided."""

    def __init__(self) -> None:
        self._avoid_until_ms: dict[str, int] = {}

    def answered(self, broker_name: str, latency_ms: int, now: int) -> None:
        """Note that a try was answered after `latency_ms`."""
        penalty = penalty_ms(latency_ms)
        if penalty:
            self._avoid_until_ms[broker_name] = now + penalty
        else:
            self._avoid_until_ms.pop(broker_name, None)

    def failed(self, broker_name: str, now: int) -> None:
        """Note that a try got no answer."""
        self._avoid_until_ms[broker_name] = now + penalty_ms(FAILED_LATENCY_MS)

    def available(self, broker_name: str, now: int) -> bool:
        """Whether `broker_name` is not avoided now."""
        return self._avoid_until_ms.get(broker_name, 0) <= now

    def statistics(self) -> dict[str, int]:
        """Return the monotonic milliseconds until which each broker is avoided."""
        return dict(self._avoid_until_ms)


# Queue selection -----------------------------------------------------------------------------
# Which queue a message goes to: in turn, leaving out avoided brokers, or by key.


class RoundRobin:
    """Chooses queues in turn, from a random start."""

    def __init__(self, rng: Rng, fault: FaultTable | None = None) -> None:
        self._next = rng.randrange(1 << 30)
        self._fault = fault

    def select(
        self, queues: Sequence[MessageQueue], now: int, *, avoid: str | None = None
    ) -> MessageQueue:
        """Return the next queue; if possible not on an avoided broker, nor on the
        broker `avoid`.
        """
        count = len(queues)
        for step in range(count):
            queue = queues[(self._next + step) % count]
            if self._good(queue, now, avoid):
                self._next += step + 1
                return queue
        self._next += 1
        return queues[(self._next - 1) % count]

    def _good(self, queue: MessageQueue, now: int, avoid: str | None) -> bool:
        if queue.broker_name == avoid:
            return False
        return self._fault is None or self._fault.available(queue.broker_name, now)


def by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue of `key`: the same in every process while the list of queues is the same."""
    return queues[index_by_key(len(queues), key)]


def index_by_key(count: int, key: str) -> int:
    """Return the index of the queue of `key` in a list of `count` queues."""
    return crc32(key.encode()) % count


def permission_note(route: TopicRouteData | None) -> str:
    """Return a note for an error message if no queue of `route` is writable, else an empty text."""
    if route is None or not route.queue_datas:
        return ""
    if any(data.perm & PERM_WRITE for data in route.queue_datas):
        return ""
    return "; its queues may not be written (permission without w)"
