"""What the log tells of a transaction that looks open and is not."""

import pytest
from tests.broker.broker_harness import WALL, BrokerHarness, send
from tests.broker.transaction.around import (
    ROLLBACK,
    bodies,
    end,
    half,
    made,
    producer,
    restarted,
    tick,
)

from epochmq.broker.transaction import half_messages
from epochmq.broker.transaction.half_messages import is_committed
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_a_commit_whose_op_message_was_not_written_is_not_delivered_twice(
    harness: BrokerHarness,
) -> None:
    client = harness.client()
    answer = client.ask(half())
    client.put(end(answer, oneway=True))
    harness.turn()
    assert harness.stored(OP_HALF_TOPIC) == []
    harness = restarted(harness)
    client = harness.client()
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    tick(harness, 3_000)
    assert bodies(harness) == [b"hello"]
    assert [op.body for op in harness.stored(OP_HALF_TOPIC)] == [b"0,"]


@pytest.mark.parametrize("indexed", [True, False])
def test_what_was_given_up_is_not_committed_by_the_next_master(indexed: bool) -> None:
    """Kept for operators; its op message was not written when its master died."""
    harness = made(transaction_check_max=0, message_index_enable=indexed)
    answer = harness.client().ask(half())
    producer(harness)
    tick(harness, 31_000)
    assert bodies(harness, TRANS_CHECK_MAX_TIME_TOPIC, 0) == [b"hello"]
    assert harness.stored(OP_HALF_TOPIC) == []
    harness = restarted(harness)
    from dataclasses import replace

    harness.node.adopt_options(replace(harness.options, message_index_enable=indexed))
    assert harness.client().ask(end(answer)).code == ResponseCode.SYSTEM_ERROR
    tick(harness, 31_000)
    assert bodies(harness) == []
    assert len(harness.stored(TRANS_CHECK_MAX_TIME_TOPIC)) == 1


def test_the_same_without_an_index() -> None:
    harness = made(message_index_enable=False)
    client = harness.client()
    answer = client.ask(half())
    client.put(end(answer, oneway=True))
    harness.turn()
    harness = restarted(harness)
    from dataclasses import replace

    harness.node.adopt_options(replace(harness.options, message_index_enable=False))
    assert harness.client().ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


def test_only_the_real_message_of_this_one_counts(harness: BrokerHarness) -> None:
    """The same UNIQ_KEY on another transaction, and on an ordinary message."""
    client = harness.client()
    client.ask(send(b"ordinary", queue_id=1))
    first, second = client.ask(half(b"1")), client.ask(half(b"2"))
    client.put(end(first, oneway=True))
    harness.turn()
    harness = restarted(harness)
    client = harness.client()
    assert client.ask(end(second, ROLLBACK)).code == ResponseCode.SUCCESS
    assert client.ask(end(first, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    assert bodies(harness) == [b"ordinary", b"1"]


def test_one_that_names_no_place_is_not_committed(harness: BrokerHarness) -> None:
    harness.store.append([Draft(HALF_TOPIC, 0, b"?", b"")], WALL)
    (found,) = harness.store.read_queue(HALF_TOPIC, 0, 0, 1, 1).chunks
    assert not is_committed(harness.store, found, indexed=True)


def test_a_long_queue_is_walked_to_its_end(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_messages, "_WALK_COUNT", 2)
    client = harness.client()
    answer = client.ask(half())
    for _ in range(5):
        client.ask(send(queue_id=1))
    client.put(end(answer, oneway=True))
    harness.turn()
    (found,) = harness.store.read_queue(HALF_TOPIC, 0, 0, 1, 1).chunks
    assert is_committed(harness.store, found, indexed=False)
