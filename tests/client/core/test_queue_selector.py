"""Queue choice: fair in calm, around trouble in storms, stable by key."""

import random
from collections import Counter

from epochmq.client.core.send_policy import FaultTable, RoundRobin, by_key
from epochmq.model.topic import MessageQueue

QUEUES = tuple(MessageQueue("t", broker, index) for broker in ("a", "b") for index in range(4))


def test_round_robin_is_fair() -> None:
    selector = RoundRobin(random.Random(1))
    taken = Counter(selector.select(QUEUES, 0) for _ in range(80))
    assert set(taken.values()) == {10}


def test_the_broker_of_the_failed_try_is_avoided() -> None:
    selector = RoundRobin(random.Random(1))
    assert {selector.select(QUEUES, 0, avoid="a").broker_name for _ in range(20)} == {"b"}


def test_a_penalised_broker_is_avoided_until_its_time() -> None:
    fault = FaultTable()
    fault.failed("b", now=0)
    selector = RoundRobin(random.Random(1), fault)
    assert {selector.select(QUEUES, 1).broker_name for _ in range(20)} == {"a"}
    assert {selector.select(QUEUES, 600_000).broker_name for _ in range(20)} == {"a", "b"}


def test_when_all_are_avoided_any_is_used() -> None:
    selector = RoundRobin(random.Random(1))
    only = (MessageQueue("t", "a", 0),)
    assert selector.select(only, 0, avoid="a") == only[0]


def test_a_key_keeps_its_queue() -> None:
    assert len({by_key(QUEUES, "carrier") for _ in range(5)}) == 1
    assert len({by_key(QUEUES, str(key)) for key in range(200)}) == len(QUEUES)
