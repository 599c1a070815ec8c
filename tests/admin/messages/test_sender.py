"""Many messages to a real broker, in batches and in order."""

import pytest

from epochmq.admin.messages.following import read_to_end, spans_of
from epochmq.admin.messages.lines import Defaults, Outbound, from_line
from epochmq.admin.messages.position import FIRST
from epochmq.admin.messages.sender import WAITING_MAX, RateSender
from epochmq.base.errors import Refused
from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message, StoredMessage


async def everything(namesrv: str, topic: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []

    def take(messages: list[StoredMessage]) -> bool:
        found.extend(messages)
        return True

    async with PullConsumer(namesrv, "reads") as consumer:
        await read_to_end(consumer, await spans_of(consumer, topic, FIRST), "*", take)
    return found


async def test_more_than_may_wait_arrive_in_the_order_of_their_keys(
    namesrv: str, topic: str
) -> None:
    count = WAITING_MAX + 500
    async with Producer(namesrv, "p") as producer, RateSender(producer, topic) as sender:
        for number in range(count):
            message = Message(topic, b"%d" % number, keys=(f"k{number}",))
            await sender.put(Outbound(message, f"key{number % 3}"))
    assert sender.sent == count
    assert sender.latencies.percentile(0.5) > 0
    found = await everything(namesrv, topic)
    assert len({message.uniq_key for message in found}) == count
    for key in range(3):
        bodies = [int(m.body) for m in found if int(m.body) % 3 == key]
        assert bodies == sorted(bodies)
        assert len({m.queue_id for m in found if int(m.body) % 3 == key}) == 1


async def test_delayed_and_large_ones_go_singly(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer, RateSender(producer, topic) as sender:
        for line in (b"a", b"b" * 300_000, b"c" * 300_000):
            await sender.put(from_line(line, Defaults(topic)))
        await sender.put(from_line(b"late", Defaults(topic, delay_level=17)))
        await sender.drain()
    assert sender.sent == 4
    assert sorted(len(m.plain_body()) for m in await everything(namesrv, topic)) == [
        1,
        300_000,
        300_000,
    ]


async def test_the_first_error_ends_it(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        sender = RateSender(producer, "SCHEDULE_TOPIC_XXXX")
        await sender.put(from_line(b"x", Defaults("SCHEDULE_TOPIC_XXXX")))
        with pytest.raises(Refused):
            await sender.drain()
        with pytest.raises(Refused):
            await sender.put(from_line(b"x", Defaults("SCHEDULE_TOPIC_XXXX")))
        with pytest.raises(ZeroDivisionError):  # what went wrong outside is what is told
            async with sender:
                raise ZeroDivisionError
