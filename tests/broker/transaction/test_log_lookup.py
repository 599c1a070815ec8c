"""What the log tells of a transaction that looks open and is not."""

import pytest
from tests.broker.desk import WALL, Desk, send
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

from epochmq.broker.transaction import log_lookup
from epochmq.broker.transaction.log_lookup import is_committed
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def desk() -> Desk:
    return made()


def test_a_commit_whose_op_message_was_not_written_is_not_delivered_twice(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    client.put(end(answer, oneway=True))
    desk.turn()
    assert desk.stored(OP_HALF_TOPIC) == []
    desk = restarted(desk)
    client = desk.client()
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    tick(desk, 3_000)
    assert bodies(desk) == [b"hello"]
    assert [op.body for op in desk.stored(OP_HALF_TOPIC)] == [b"0,"]


@pytest.mark.parametrize("indexed", [True, False])
def test_what_was_given_up_is_not_committed_by_the_next_master(indexed: bool) -> None:
    """Kept for operators; its op message was not written when its master died."""
    desk = made(transaction_check_max=0, message_index_enable=indexed)
    answer = desk.client().ask(half())
    producer(desk)
    tick(desk, 31_000)
    assert bodies(desk, TRANS_CHECK_MAX_TIME_TOPIC, 0) == [b"hello"]
    assert desk.stored(OP_HALF_TOPIC) == []
    desk = restarted(desk)
    from dataclasses import replace

    desk.node.adopt_options(replace(desk.options, message_index_enable=indexed))
    assert desk.client().ask(end(answer)).code == ResponseCode.SYSTEM_ERROR
    tick(desk, 31_000)
    assert bodies(desk) == []
    assert len(desk.stored(TRANS_CHECK_MAX_TIME_TOPIC)) == 1


def test_the_same_without_an_index() -> None:
    desk = made(message_index_enable=False)
    client = desk.client()
    answer = client.ask(half())
    client.put(end(answer, oneway=True))
    desk.turn()
    desk = restarted(desk)
    from dataclasses import replace

    desk.node.adopt_options(replace(desk.options, message_index_enable=False))
    assert desk.client().ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"hello"]


def test_only_the_real_message_of_this_one_counts(desk: Desk) -> None:
    """The same UNIQ_KEY on another transaction, and on an ordinary message."""
    client = desk.client()
    client.ask(send(b"ordinary", queue_id=1))
    first, second = client.ask(half(b"1")), client.ask(half(b"2"))
    client.put(end(first, oneway=True))
    desk.turn()
    desk = restarted(desk)
    client = desk.client()
    assert client.ask(end(second, ROLLBACK)).code == ResponseCode.SUCCESS
    assert client.ask(end(first, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR
    assert bodies(desk) == [b"ordinary", b"1"]


def test_one_that_names_no_place_is_not_committed(desk: Desk) -> None:
    desk.store.append([Draft(HALF_TOPIC, 0, b"?", b"")], WALL)
    (found,) = desk.store.read_queue(HALF_TOPIC, 0, 0, 1, 1).chunks
    assert not is_committed(desk.store, found, indexed=True)


def test_a_long_queue_is_walked_to_its_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lookup, "_WALK_COUNT", 2)
    client = desk.client()
    answer = client.ask(half())
    for _ in range(5):
        client.ask(send(queue_id=1))
    client.put(end(answer, oneway=True))
    desk.turn()
    (found,) = desk.store.read_queue(HALF_TOPIC, 0, 0, 1, 1).chunks
    assert is_committed(desk.store, found, indexed=False)
