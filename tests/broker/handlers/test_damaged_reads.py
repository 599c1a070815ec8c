"""What readers are told when the next record is damaged: an error at that record, nothing lost."""

from tests.broker.desk import Desk, pull, send
from tests.broker.pop_desk import PopDesk, pop, popped

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
    desk = Desk()
    desk.topic("T")
    client = desk.client()
    client.put(*(send(b"%d" % number) for number in range(4)))
    desk.turn()
    client.take()
    at = damage(desk.node.store, "T", 2)
    for ask in (lambda offset: pull(offset=offset), bulk):
        before = client.ask(ask(0))
        assert [message.body for message in decode_all(bytes(before.body))] == [b"0", b"1"]
        answer = client.ask(ask(2))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"damaged from offset {at}" in (answer.remark or "")
        after = client.ask(ask(3))
        assert [message.body for message in decode_all(bytes(after.body))] == [b"3"]
        desk.node.store.damage.clear(0, 1 << 60)
        assert client.ask(ask(2)).code == 0
        damage(desk.node.store, "T", 2)


def test_a_bulk_read_is_told_where_it_may_go_on() -> None:
    """A damaged range may hold many messages, of other queues and of none as well."""
    desk = Desk()
    desk.topic("T")
    client = desk.client()
    client.put(
        *(send(b"%d" % number, properties={"TAGS": "ab"[number % 2]}) for number in range(6))
    )
    desk.turn()
    client.take()
    store = desk.node.store
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
    desk = PopDesk()
    desk.put(b"a", b"b")
    damage(desk.node.store, "T", 0)
    client = desk.client()
    client.put(pop(poll_ms=15_000))
    desk.turn()
    assert client.take() == []
    answer = desk.client().ask(pop(poll_ms=0))
    assert answer.code == ResponseCode.POLLING_TIMEOUT
    desk.node.store.damage.clear(0, 1 << 60)
    assert [one.body for one in popped(desk.client().ask(pop()))] == [b"a", b"b"]
