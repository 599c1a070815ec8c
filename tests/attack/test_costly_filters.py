"""A filter of very many conditions costs a pull no more than others."""

import time

from tests.broker.broker_harness import BrokerHarness, ext, pull, send

from epochmq.base import limits
from epochmq.wire.codes import ResponseCode

CONDITIONS = " OR ".join(f"a{n}>1" for n in range(1_500))


def test_a_pull_evaluates_so_much_and_the_next_one_goes_on() -> None:
    assert len(CONDITIONS) < limits.SQL_LENGTH_MAX
    harness = BrokerHarness(enable_property_filter=True)
    harness.topic("T", queues=1)
    client = harness.client()
    client.put(*(send(b"x", topic="T", properties={"a1": "1"}) for _ in range(300)))
    client.put(send(b"found", topic="T", properties={"a7": "2"}))
    harness.turn()
    client.take()
    offset, pulls, longest = 0, 0, 0.0
    while True:
        begun = time.thread_time()
        client.put(pull(topic="T", offset=offset, expression=CONDITIONS, kind="SQL92"))
        harness.turn()
        longest = max(longest, time.thread_time() - begun)
        (answer,) = client.take()
        pulls += 1
        if answer.code == 0:
            break
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert int(ext(answer)["nextBeginOffset"]) > offset
        offset = int(ext(answer)["nextBeginOffset"])
    assert b"found" in bytes(answer.body)
    assert pulls > 300 * 3 * 1_500 // 50_000
    assert longest < 0.2
