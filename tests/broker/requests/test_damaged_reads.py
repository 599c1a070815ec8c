"""What readers are told when the next record is damaged: an error at that record, nothing lost."""

from tests.broker.broker_harness import BrokerHarness, pull, send
from tests.broker.pop_harness import PopHarness, pop, popped

from epochmq.model.record import decode_all
from epochmq.store.store import Store
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command


def damage(store: Store, topic: str, queue_offset: int) -> int:
    """Damage one record; where."""
    ((offset, size, _),) = store.units(topic, 0, queue_offset, 1)
    store.damage.report(offset, offset + size, "rot")
    return offset


def bulk(offset: int, **more: str) -> Command:
    fields = {"topic": "T", "queueId": "0", "offset": str(offset), **more}
    return Command(Code.BULK_READ, ext=fields)


def test_pulls_stop_at_a_damaged_record() -> None:
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.put(*(send(b"%d" % number) for number in range(4)))
    harness.turn()
    client.take()
    at = damage(harness.node.store, "T", 2)
    for ask in (lambda offset: pull(offset=offset), bulk):
        before = client.ask(ask(0))
        assert [message.body for message in decode_all(bytes(before.body))] == [b"0", b"1"]
        answer = client.ask(ask(2))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"damaged from offset {at}" in (answer.remark or "")
        after = client.ask(ask(3))
        assert [message.body for message in decode_all(bytes(after.body))] == [b"3"]
        harness.node.store.damage.clear(0, 1 << 60)
        assert client.ask(ask(2)).code == 0
        damage(harness.node.store, "T", 2)


def test_a_bulk_read_is_told_where_it_may_go_on() -> None:
    """A damaged range may hold many messages, of other queues and of none as well."""
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.put(
        *(send(b"%d" % number, properties={"TAGS": "ab"[number % 2]}) for number in range(6))
    )
    harness.turn()
    client.take()
    store = harness.node.store
    (_, _, (low, _, _), _, (high, _, _), _) = store.units("T", 0, 0, 6)
    store.damage.report(low + 1, high + 1, "rot")
    for tags in ({}, {"tags": "a"}):
        answer = client.ask(bulk(2, **tags))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        ext = answer.ext or {}
        assert (ext["nextOffset"], ext["behindDamage"]) == ("2", "5")
        assert "behindDamage" not in (client.ask(bulk(5, **tags)).ext or {})
    store.damage.report(high + 1, high + 1000, "rot")
    assert (client.ask(bulk(5)).ext or {})["behindDamage"] == "6", "the end"


def test_a_pop_waits_at_a_damaged_record() -> None:
    """The client is held and not sent round and round; after the repair it goes on."""
    harness = PopHarness()
    harness.put(b"a", b"b")
    damage(harness.node.store, "T", 0)
    client = harness.client()
    client.put(pop(poll_ms=15_000))
    harness.turn()
    assert client.take() == []
    answer = harness.client().ask(pop(poll_ms=0))
    assert answer.code == ResponseCode.POLLING_TIMEOUT
    harness.node.store.damage.clear(0, 1 << 60)
    assert [one.body for one in popped(harness.client().ask(pop()))] == [b"a", b"b"]
