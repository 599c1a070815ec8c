"""What a controller counts about requests and elections, for metrics."""

from collections import Counter

from epochmq.base.histogram import Histogram
from epochmq.controller.controller_state import Key
from epochmq.wire.codes import RequestCode, ResponseCode

SUCCESS, FAILED, TIMEOUT = "success", "failed", "timeout"
NEW_MASTER, NO_MASTER = "new_master_elected", "no_master_elected"
LATENCY_US = (*(step * 10**power for power in range(7) for step in (1, 3, 5)), 10**7)
"""Bounds of the classes of latency, in microseconds: RocketMQ's."""


class RequestCounts:
    """Counts since the start of the process."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        """By the name of the request and how it ended."""
        self.latency: dict[str, Histogram] = {}
        """By the name of the request, in microseconds."""
        self.appends: Counter[str] = Counter()
        """Commands that were proposed, by how that ended."""
        self.append_latency: dict[str, Histogram] = {}
        """The same in microseconds."""
        self.elections: Counter[str] = Counter()
        """By result."""
        self.without_master_ms: Counter[Key] = Counter()
        """By group: the time without a master at the elections that this controller decided."""

    def answered(self, code: int, answer_code: int, took_ms: int) -> None:
        """Count an answer; `took_ms` is the time since the request arrived."""
        name = _name(code)
        self.requests[name, SUCCESS if answer_code == ResponseCode.SUCCESS else FAILED] += 1
        histogram = self.latency.get(name)
        if histogram is None:
            histogram = self.latency[name] = Histogram(LATENCY_US)
        histogram.observe(took_ms * 1000)

    def appended(self, took_ms: int, *, done: bool) -> None:
        """Count a proposed command; `done` is False if its result is unknown."""
        status = SUCCESS if done else FAILED
        self.appends[status] += 1
        histogram = self.append_latency.get(status)
        if histogram is None:
            histogram = self.append_latency[status] = Histogram(LATENCY_US)
        histogram.observe(took_ms * 1000)

    def timed_out(self, code: int) -> None:
        """Count a request that was given up."""
        self.requests[_name(code), TIMEOUT] += 1


def _name(code: int) -> str:
    """Return the name of a request in lower case; one name for all that are not known."""
    try:
        return RequestCode(code).name.lower()
    except ValueError:
        return "unknown"
