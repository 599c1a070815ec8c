"""A consumer's calls to a real broker."""

import pytest
from tests.client.aio.test_subscribing import message

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import Producer
from epochmq.client.aio.broker_calls import BrokerCalls, _pulled
from epochmq.client.aio.instance import Instance
from epochmq.client.core.consumer_state import CorruptMessage
from epochmq.model import batch, record
from epochmq.model.message import Message
from epochmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from epochmq.model.topic import MessageQueue
from epochmq.wire.command import Command


@pytest.fixture
async def queue(namesrv: str, topic: str) -> MessageQueue:
    async with Producer(namesrv, "p") as producer:
        await producer.send(Message(topic, b"x"))
    return MessageQueue(topic, "broker-a", 0)


async def test_a_lock_has_one_owner(
    instance: Instance, another_instance: Instance, queue: MessageQueue
) -> None:
    one, two = (BrokerCalls(each, "locks") for each in (instance, another_instance))
    for each in (instance, another_instance):
        await each.ensure_route(queue.topic)
    assert await one.lock("broker-a", [queue]) == {queue}
    assert await two.lock("broker-a", [queue]) == set()
    await one.unlock("broker-a", [queue])
    assert await one.lock("broker-a", [queue]) == {queue}
    await one.unlock("broker-a", [queue])
    await one.max_offset(queue)  # the unlock has no answer: what comes after it has
    assert await two.lock("broker-a", [queue]) == {queue}


async def test_errors_of_the_broker_keep_their_code(
    instance: Instance, queue: MessageQueue
) -> None:
    calls = BrokerCalls(instance, "nobody-here")
    await instance.ensure_route(queue.topic)
    with pytest.raises(Refused) as refused:
        await calls.members(queue.topic)
    assert refused.value.code == 1
    lost = message("A")
    lost.offset, lost.body = 1 << 40, b""
    with pytest.raises(Refused):
        await calls.send_back(lost, "broker-a", 0, 16)
    with pytest.raises(NotReachable, match="broker-x"):
        await calls.lock("broker-x", [queue])
    with pytest.raises(NotReachable, match="broker-x"):
        await calls.max_offset(MessageQueue("t", "broker-x", 0))


def test_a_pull_shows_the_messages_inside_a_batch_from_where_it_was_asked() -> None:
    batched = message("A")
    batched.queue_offset = 4
    batched.sys_flag = NEED_UNWRAP | INNER_BATCH
    batched.body = batch.encode([Message("A", b"m%d" % n) for n in range(3)])
    plain = message("A")
    plain.queue_offset = 7
    body = b"".join(map(record.encode_stored, (batched, plain)))
    fields = {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "8", "minOffset": "0", "maxOffset": "8",
    }  # fmt: skip
    found = _pulled(Command(0, ext=fields, body=body), 5, "broker-a", 0).messages
    assert [(m.queue_offset, m.body) for m in found] == [(5, b"m1"), (6, b"m2"), (7, plain.body)]


def test_a_pull_ends_before_a_damaged_message() -> None:
    """It is neither delivered nor passed over: the next pull begins with it, and says so."""
    stored = []
    for offset in range(3):
        one = message("A")
        one.queue_offset, one.body = offset, b"body %d" % offset
        stored.append(bytearray(record.encode_stored(one)))
    stored[1][record.HEAD.size] ^= 1
    fields = {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3",
    }  # fmt: skip
    found = _pulled(Command(0, ext=fields, body=b"".join(stored)), 0, "broker-a", 0)
    assert [m.body for m in found.messages] == [b"body 0"]
    assert found.next_offset == 1
    with pytest.raises(CorruptMessage, match="message 1 of t,") as damaged:
        _pulled(Command(0, ext=fields, body=b"".join(stored[1:])), 1, "broker-a", 2)
    assert damaged.value.broker_id == 2
