"""Metrics of requests, as a scrape shows them."""

from tests.broker.broker_harness import BrokerHarness, send
from tests.observe.test_families import samples_of

from epochmq.observe.families import write_families
from epochmq.observe.request_metrics import request_families


def test_latency_and_refusals() -> None:
    harness = BrokerHarness(auto_create_topic_enable=False)
    harness.topic("T")
    client = harness.client()
    client.put(send(b"x"), send(b"x", oneway=True))
    harness.clock.step(6)
    harness.turn()
    harness.client().ask(send(b"x", topic="none"))
    found = samples_of(b"".join(write_families(request_families(harness.node), {}, 1_000)))
    latency = "rocketmq_rpc_latency_milliseconds"
    labels = {
        "protocol_type": "remoting", "request_code": "send_message_v2", "response_code": "success",
        "is_long_polling": "false", "result": "success",
    }  # fmt: skip

    def bucket(bound: str) -> float:
        return found[f"{latency}_bucket", tuple(sorted({**labels, "le": bound}.items()))]

    assert [bucket(bound) for bound in ("5.0", "7.0", "+Inf")] == [0, 1, 1]
    oneway = {**labels, "result": "oneway"}
    assert found[f"{latency}_count", tuple(sorted(oneway.items()))] == 1
    refused = (("response_code", "topic_not_exist"),)
    assert found["epochmq_sends_refused_total", refused] == 1
