"""Group commit: one answer for each message, after the sync, the time-out or the failure."""

from collections.abc import Callable

import pytest
from tests.broker.broker_harness import BrokerHarness, ext, send

from epochmq.broker.serving.acknowledgement import SyncWaits
from epochmq.wire.codes import ResponseCode


class Syncs:
    """A store's waiting list, released by the test."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, Callable[[bool], None]]] = []

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        self.waiting.append((offset, callback))


def test_each_group_is_settled_exactly_once() -> None:
    store = Syncs()
    waits = SyncWaits(store)
    said: list[tuple[str, int]] = []
    for name, end, deadline in (("a", 10, 100), ("b", 20, 200), ("c", 30, 300)):
        waits.park(end, deadline, lambda code, name=name: said.append((name, code)))
    assert [end for end, _ in store.waiting] == [10, 20, 30]
    assert waits.next_deadline() == 100
    store.waiting[0][1](True)
    waits.expire(199)
    assert said == [("a", 0)]
    assert waits.next_deadline() == 200
    waits.expire(200)
    assert said == [("a", 0), ("b", 10)]
    store.waiting[1][1](True)
    store.waiting[2][1](False)
    assert said == [("a", 0), ("b", 10), ("c", 14)]
    assert waits.next_deadline() is None
    assert waits.statistics() == {"groups": 0}


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH", sync_flush_timeout=3000)
    harness.topic("T")
    return harness


def test_answers_of_a_turn_wait_for_one_sync(harness: BrokerHarness) -> None:
    clients = [harness.client(), harness.client()]
    for client in clients:
        client.put(send(), send(binary=True))
    harness.turn()
    assert [client.take() for client in clients] == [[], []]
    assert harness.stored("T") == []  # not readable before it is safe
    harness.store.sync()
    for client in clients:
        assert [answer.code for answer in client.take()] == [0, 0]
    assert len(harness.stored("T")) == 4


def test_wait_false_is_answered_at_once(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(send(properties={"WAIT": "false"}), send())
    harness.turn()
    assert [answer.opaque for answer in client.take()] == [1]
    harness.store.sync()
    assert [answer.opaque for answer in client.take()] == [2]


def test_a_late_sync_is_answered_with_flush_disk_timeout(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(send(), send(binary=True))
    harness.turn()
    harness.clock.step(3000)
    harness.sink.stage.syncs.expire(harness.clock.now)
    for answer in client.take():
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert ext(answer)["queueId"] == "0"  # it is stored: the whole header comes
    harness.store.sync()
    assert client.take() == []


def test_a_failed_sync_is_no_success_of_any_kind(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(send(), send(oneway=True))
    harness.turn()
    harness.store.fence("the disk said no")
    (answer,) = client.take()
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert client.ask(send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
