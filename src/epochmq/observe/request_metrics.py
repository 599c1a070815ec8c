"""Metrics of requests: their latency, refusals, and the creation of topics and groups."""

from collections import Counter
from collections.abc import Iterator

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.state.request_times import RequestKind
from epochmq.observe.families import COUNTER, HISTOGRAM, Family, Row
from epochmq.wire.codes import RequestCode, ResponseCode

_PROTOCOL = "remoting"
_LATENCY_LABELS = (
    "protocol_type", "request_code", "response_code", "is_long_polling", "result"
)  # fmt: skip
_SENDS = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)


def request_families(node: BrokerContext) -> Iterator[Family]:
    """Yield the metrics of the requests that a broker answered."""
    times = node.request_times
    kinds = times.items()
    yield Family(
        "rocketmq_rpc_latency_milliseconds", HISTOGRAM, "Time until the answer.", _LATENCY_LABELS,
        [(_labels(kind), each) for kind, each in kinds],
    )  # fmt: skip
    refused: Counter[str] = Counter()
    for kind, each in kinds:
        if kind.code in _SENDS and kind.answer_code != ResponseCode.SUCCESS:
            refused[kind.answer_name] += sum(each.counts)
    yield Family(
        "epochmq_sends_refused", COUNTER, "Sends that were not answered with success.",
        ("response_code",), [((name,), count) for name, count in refused.items()],
    )  # fmt: skip
    for name, is_group in (("topic", False), ("consumer_group", True)):
        rows: list[Row] = [
            ((_truth(kind.is_system), "success" if kind.succeeded else "failure"), each)
            for kind, each in times.creations.items()
            if kind.is_group == is_group
        ]
        yield Family(
            f"rocketmq_{name}_create_execution_time_milliseconds", HISTOGRAM,
            "Time until the answer to a creation or change.", ("is_system", "invocation_status"),
            rows,
        )  # fmt: skip


def _labels(kind: RequestKind) -> tuple[str, ...]:
    result = "oneway" if kind.oneway else "success"
    return _PROTOCOL, kind.request_name, kind.answer_name, _truth(kind.was_held), result


def _truth(value: bool) -> str:
    return "true" if value else "false"
