"""How long the broker took to answer requests, as RocketMQ's rpc_latency has it.

An answer that is held (for replicas, a flush, or until messages arrive) is counted when it is
given, not when the request arrived.
"""

from collections.abc import Callable
from typing import NamedTuple

from epochmq.base.errors import HeaderError
from epochmq.base.histogram import Histogram, HistogramTable
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import is_system_group, is_system_topic
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import FLAG_ONEWAY, Command

RPC_LATENCY_MS = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
"""Bounds of the classes of rpc_latency (ms): RocketMQ's."""
CREATE_MS = (10, 100, 1_000, 3_000, 5_000)
"""Bounds of the classes of the creation of topics and groups (ms): RocketMQ's."""
KEYS_MAX = 2_000
_CREATE_BYTES_MAX = 16_384
"""A larger body is not decoded for the label is_system: no group needs so much."""
_CREATE_CODES = frozenset(
    {RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP}
)
_KNOWN = frozenset(map(int, RequestCode))
_UNKNOWN = 0


class RequestKind(NamedTuple):
    """What one histogram counts."""

    code: int
    """Code of the request; 0 stands for all unknown codes."""
    answer_code: int
    was_held: bool = False
    """Whether the request waited for messages (long polling)."""
    oneway: bool = False

    @property
    def request_name(self) -> str:
        """Name of the request in lower case."""
        return RequestCode(self.code).name.lower() if self.code else "unknown"

    @property
    def answer_name(self) -> str:
        """Name of the response code in lower case; the number of a code without a name."""
        try:
            return ResponseCode(self.answer_code).name.lower()
        except ValueError:
            return str(self.answer_code)


class CreateKind(NamedTuple):
    """What one histogram of the creations of topics or groups counts."""

    is_group: bool
    is_system: bool
    succeeded: bool


class RequestTimes:
    """Counts the answers of one broker by kind and time; `now_ms` returns the monotonic time.

    Every request comes by here, so that a known kind costs one look into a table.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._table: dict[tuple[int, int, bool, bool], Histogram] = {}
        """By the fields of `RequestKind`."""
        self.creations: HistogramTable[CreateKind] = HistogramTable(CREATE_MS, KEYS_MAX)
        """How long it took to create or change topics and groups (ms), up to the answer."""

    def answered(self, request: Command, answer_code: int) -> None:
        """Count the answer to a request that has a time of arrival."""
        took_ms = self._now_ms() - request.arrived_ms
        key = request.code, answer_code, request.was_held, request.flag & FLAG_ONEWAY != 0
        (self._table.get(key) or self._add(key)).observe(took_ms)
        if request.code in _CREATE_CODES:
            kind = CreateKind(
                request.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                _is_system(request),
                answer_code == ResponseCode.SUCCESS,
            )
            self.creations.get(kind).observe(took_ms)

    def count(
        self,
        code: int,
        answer_code: int,
        arrived_ms: int,
        times: int = 1,
        was_held: bool = False,
        is_oneway: bool = False,
    ) -> None:
        """Count `times` answers to requests that arrived together, at monotonic `arrived_ms`."""
        key = code, answer_code, was_held, is_oneway
        histogram = self._table.get(key) or self._add(key)
        histogram.observe(self._now_ms() - arrived_ms, times)

    def histogram(self, code: int, answer_code: int) -> Histogram:
        """Return where answers to requests that do not wait for messages are counted."""
        key = code, answer_code, False, False
        return self._table.get(key) or self._add(key)

    def items(self) -> list[tuple[RequestKind, Histogram]]:
        """Return the times of all kinds (ms)."""
        return [(RequestKind(*key), each) for key, each in self._table.items()]

    def _add(self, key: tuple[int, int, bool, bool]) -> Histogram:
        """Return the histogram of a kind that has none, or that of unknown requests."""
        if key[0] not in _KNOWN:
            key = _UNKNOWN, key[1], key[2], key[3]
        histogram = self._table.get(key)
        if histogram is None:
            histogram = Histogram(RPC_LATENCY_MS)
            if len(self._table) < KEYS_MAX:
                self._table[key] = histogram
        return histogram


def _is_system(request: Command) -> bool:
    """Return whether a request creates a topic or group of RocketMQ's own."""
    if request.code == RequestCode.UPDATE_AND_CREATE_TOPIC:
        return is_system_topic((request.ext or {}).get("topic", ""))
    if len(request.body) > _CREATE_BYTES_MAX:
        return False
    try:
        return is_system_group(decode_body(SubscriptionGroupConfig, request.body).group_name)
    except HeaderError:
        return False  # the handler refused it for the same reason
