"""60 and 61: how far the timer is, and what waits."""

import pytest
from tests.broker.broker_harness import BrokerHarness
from tests.broker.delay.timers import TimerBroker

from epochmq.broker.requests.runtime_info import runtime_info
from epochmq.store.timer.timer_checkpoint import decode
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import request


def test_both_answer_and_know_stamps() -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=60_000)
    broker.run(1000)
    client = broker.client()
    answer = client.ask(request(Code.GET_TIMER_CHECK_POINT, {}))
    assert len(answer.body) == 56
    found = decode(bytes(answer.body))
    assert found is not None
    assert found.master_offset == 1
    metrics = client.ask(request(Code.GET_TIMER_METRICS, {}))
    counts = json_tolerant.loads(bytes(metrics.body))["timingCount"]
    assert counts["T"]["count"] == 1
    for code, before in (
        (Code.GET_TIMER_CHECK_POINT, answer),
        (Code.GET_TIMER_METRICS, metrics),
    ):
        assert before.ext is not None
        again = client.ask(request(code, {"sinceStamp": before.ext["stamp"]}))
        assert again.ext is not None
        assert (again.ext["unchanged"], bytes(again.body)) == ("true", b"")


@pytest.mark.parametrize("code", [Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS])
def test_without_a_timer_it_is_upstreams_error(code: Code) -> None:
    harness = BrokerHarness()
    answer = harness.client().ask(request(code, {}))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").endswith("is null")
    assert runtime_info(harness.node)["timerCongestNum"] == "0"


def test_runtime_info_tells_of_it() -> None:
    broker = TimerBroker()
    broker.put(b"a", b"b", TIMER_DELAY_MS=60_000)
    assert runtime_info(broker.node)["timerOffsetBehind"] == "2"
    broker.run(3000)
    table = runtime_info(broker.node)
    assert (table["timerCongestNum"], table["timerOffsetBehind"]) == ("2", "0")
    assert table["timerReadBehind"] == "0"
    assert float(table["timerEnqueueTps"]) >= 0
