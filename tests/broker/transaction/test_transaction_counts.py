"""Counts of transactions by topic, through a whole broker."""

import pytest
from tests.broker.become import become
from tests.broker.transaction.around import COMMIT, ROLLBACK, end, half, made, tick

from epochmq.broker.requests.topic_handlers import delete_topic
from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction.transaction_counts import TopicTransactions, TransactionCounts


def test_each_transaction_counts_once() -> None:
    harness = made()
    harness.topic("T2")
    client = harness.client()
    first, second, third = (client.ask(half(topic=topic)) for topic in ("T", "T", "T2"))
    tick(harness)
    topics = dict(harness.node.transactions.topics.items())
    assert {topic: each.open for topic, each in topics.items()} == {"T": 2, "T2": 1}
    harness.clock.step(7_000)
    for _ in range(2):  # a repeated request ends nothing
        assert client.ask(end(first, COMMIT)).code == 0
        client.put(end(third, COMMIT, oneway=True))
        harness.turn()
        client.put(end(second, ROLLBACK))
        harness.turn()
        tick(harness, 4_000)
        assert [answer.code for answer in client.take()] == [0]
    assert (topics["T"].open, topics["T"].committed, topics["T"].rolled_back) == (0, 1, 1)
    assert (topics["T2"].open, topics["T2"].committed, topics["T2"].rolled_back) == (0, 1, 0)
    assert topics["T"].latency.total == topics["T2"].latency.total == 7
    delete_topic(harness.node, "T")
    assert [topic for topic, _ in harness.node.transactions.topics.items()] == ["T2"]


def test_a_replica_knows_no_open_transactions() -> None:
    harness = made()
    harness.client().ask(half())
    tick(harness)
    ((_, counts),) = harness.node.transactions.topics.items()
    assert counts.open == 1
    become(harness.node, Role.SLAVE)
    tick(harness)
    become(harness.node, Role.MASTER)
    tick(harness)
    assert counts.open == 1


@pytest.mark.parametrize("topics_max", [0, 1])
def test_a_full_table_counts_the_topics_that_it_has(topics_max: int) -> None:
    table = TransactionCounts(topics_max)
    for topic in (b"a", b"b", b"a"):
        table.of_topic(topic).commit(1)
    assert [(topic, each.committed) for topic, each in table.items()] == [("a", 2)][:topics_max]


def test_a_clock_that_was_behind_gives_no_negative_age() -> None:
    counts = TopicTransactions()
    counts.commit(-5_000)
    assert counts.latency.total == 0
