"""Consuming by POP, on RocketMQ's broker and on ours: shares, acks, retries, order, closing."""

import asyncio

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import first_dead
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotReachable, UsageError
from epochmq.client.aio import Admin, ConsumeResult, PopConsumer, Producer, PushConsumer
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.client.core import pop_state
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import TopicConfig

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.fixture
def namesrv(pop_cluster: Cluster) -> str:
    return pop_cluster.namesrv_addr


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that failed comes again after a second."""
    monkeypatch.setattr(pop_state, "DELAYS_S", (1,))


async def fill(namesrv: str, topic: str, count: int, queues: int = 2) -> list[bytes]:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(topic, queues, queues))
    bodies = [b"%d" % number for number in range(count)]
    async with Producer(namesrv, "p") as producer:
        for number, body in enumerate(bodies):
            tag = "odd" if number % 2 else "even"
            await producer.send_ordered(Message(topic, body, tag), f"{number}")
    return bodies


async def test_each_message_once_for_two_members(namesrv: str, topic: str) -> None:
    bodies = await fill(namesrv, topic, 40)
    collector = Collector(40)
    consumers = [PopConsumer(namesrv, f"g_{topic}", start="first", pop_count=4) for _ in range(2)]
    for consumer in consumers:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
    await collector.wait()
    assert all(consumer.shares() for consumer in consumers)
    for consumer in consumers:
        await consumer.close()
    assert sorted(collector.bodies) == sorted(bodies)


async def test_only_the_tags_wanted_and_nothing_again(namesrv: str, topic: str) -> None:
    await fill(namesrv, topic, 10)
    group = f"g_{topic}"
    first = Collector(5)
    async with PopConsumer(namesrv, group, start="first", invisible_ms=5_000) as consumer:
        consumer.on_message(first)
        await consumer.subscribe(topic, "odd")
        await consumer.start()
        await first.wait()
    assert {message.tags for message in first.accepted} == {"odd"}
    # What was acknowledged stays away, also after the time in which it was nobody else's.
    again = Collector(1)
    async with PopConsumer(namesrv, group, start="first", poll_ms=1_000) as consumer:
        consumer.on_message(again)
        await consumer.subscribe(topic, "odd")
        await consumer.start()
        with pytest.raises(TimeoutError):
            await again.wait(9)
        assert consumer.found_nothing()


async def test_a_failure_comes_again_and_at_last_is_a_dead_letter(namesrv: str, topic: str) -> None:
    await fill(namesrv, topic, 2, queues=1)
    group = f"g_{topic}"

    def judge(message: StoredMessage) -> ConsumeResult:
        return ConsumeResult.LATER if message.body == b"0" else ConsumeResult.SUCCESS

    collector = Collector(1, judge)
    async with PopConsumer(
        namesrv, group, start="first", max_reconsume_times=1, poll_ms=1_000
    ) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        assert (await first_dead(namesrv, group)).body == b"0"
    tries = [message for message in collector.seen if message.body == b"0"]
    assert [message.reconsume_times for message in tries] == [0, 1]
    assert {message.topic for message in tries} == {topic}
    assert all("1ST_POP_TIME" in message.properties for message in tries)
    dead = await first_dead(namesrv, group)
    assert "POP_CK" not in dead.properties


async def test_what_a_member_that_pulls_sent_back_is_popped(namesrv: str, topic: str) -> None:
    """It lies in %RETRY%group, which no pop of the topic reads."""
    await fill(namesrv, topic, 1, queues=1)
    group = f"g_{topic}"
    pulled = Collector(1)
    async with PushConsumer(namesrv, group, start="first") as consumer:
        consumer.on_message(pulled)
        await consumer.subscribe(topic)
        await consumer.start()
        await pulled.wait()
        (queue,) = consumer.instance.routes.subscribe(topic)
        calls = BrokerCalls(consumer.instance, group)
        await calls.send_back(pulled.seen[0], queue.broker_name, 1, 16)
    collector = Collector(1)
    async with PopConsumer(namesrv, group, poll_ms=1_000) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait(60)
    (message,) = collector.seen
    assert (message.topic, message.body, message.reconsume_times) == (topic, b"0", 1)


async def test_in_order_and_what_fails_holds_the_rest(namesrv: str, topic: str) -> None:
    bodies = await fill(namesrv, topic, 6, queues=1)
    failed: list[bytes] = []

    def judge(message: StoredMessage) -> ConsumeResult:
        if message.body == b"2" and failed.count(b"2") < 2:
            failed.append(b"2")
            return ConsumeResult.LATER
        return ConsumeResult.SUCCESS

    collector = Collector(6, judge)
    async with PopConsumer(namesrv, f"g_{topic}", start="first", ordered=True) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait(60)
    assert collector.bodies == bodies
    assert [m.body for m in collector.seen] == [b"0", b"1", b"2", b"2", b"2", b"3", b"4", b"5"]


async def test_an_ordered_message_that_always_fails_is_a_dead_letter(
    namesrv: str, topic: str
) -> None:
    await fill(namesrv, topic, 3, queues=1)

    def judge(message: StoredMessage) -> ConsumeResult:
        return ConsumeResult.LATER if message.body == b"1" else ConsumeResult.SUCCESS

    collector = Collector(2, judge)
    async with PopConsumer(
        namesrv, f"g_{topic}", start="first", ordered=True, max_reconsume_times=1
    ) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait(60)
    assert [m.body for m in collector.seen] == [b"0", b"1", b"1", b"2"]
    assert (await first_dead(namesrv, f"g_{topic}")).body == b"1"


async def test_closing_waits_for_what_is_handled_and_gives_the_rest_back(
    namesrv: str, topic: str
) -> None:
    await fill(namesrv, topic, 4, queues=1)
    group = f"g_{topic}"
    began, go_on = asyncio.Event(), asyncio.Event()
    done: list[bytes] = []

    async def slow(messages: list[StoredMessage]) -> None:
        began.set()
        await go_on.wait()
        done.extend(message.body for message in messages)

    consumer = PopConsumer(namesrv, group, start="first", concurrency=1)
    consumer.on_message(slow)
    await consumer.subscribe(topic)
    await consumer.start()
    await asyncio.wait_for(began.wait(), 30)
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0.1)
    assert not closing.done()
    go_on.set()
    await asyncio.wait_for(closing, 30)
    assert len(done) == 1
    # Long before the minute is over for which they were popped.
    rest = Collector(3)
    async with PopConsumer(namesrv, group, poll_ms=1_000) as other:
        other.on_message(rest)
        await other.subscribe(topic)
        await other.start()
        await rest.wait(30)
    assert sorted(done + rest.bodies) == [b"0", b"1", b"2", b"3"]


async def test_what_a_dead_member_had_comes_to_another(namesrv: str, topic: str) -> None:
    await fill(namesrv, topic, 3, queues=1)
    group = f"g_{topic}"
    began = asyncio.Event()

    async def never(messages: list[StoredMessage]) -> None:
        began.set()
        await asyncio.Event().wait()

    dying = PopConsumer(namesrv, group, start="first", invisible_ms=5_000)
    dying.on_message(never)
    await dying.subscribe(topic)
    await dying.start()
    await asyncio.wait_for(began.wait(), 30)
    await dying.instance.close()  # as a kill -9: nothing is said about the messages
    collector = Collector(3)
    async with PopConsumer(namesrv, group, poll_ms=1_000) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait(40)
    assert sorted(collector.bodies) == [b"0", b"1", b"2"]
    assert {message.reconsume_times for message in collector.accepted} == {1}


async def test_an_unsubscribed_topic_is_popped_no_more(namesrv: str, topic: str) -> None:
    await fill(namesrv, topic, 1)
    collector = Collector(1)
    async with PopConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(collector)
        await consumer.start()
        await consumer.subscribe(topic)
        await collector.wait()
        await consumer.unsubscribe(topic)
        assert consumer.shares() == []


async def test_wrong_use(namesrv: str) -> None:
    for wrong in ({"start": "middle"}, {"strategy": "CONFIG"}):
        with pytest.raises(UsageError):
            PopConsumer(namesrv, "g", **wrong)  # type: ignore[arg-type]
    for number in ({"invisible_ms": 10}, {"pop_count": 33}, {"in_flight_max": 0}):
        with pytest.raises(UsageError):
            PopConsumer(namesrv, "g", **number)  # type: ignore[arg-type]
    async with PopConsumer(namesrv, "g") as consumer:
        with pytest.raises(UsageError, match="on_message"):
            await consumer.start()


async def test_nothing_is_skipped_that_was_sent_after_start(namesrv: str, topic: str) -> None:
    """Brokers note where a new group begins with its first pop, which `start` waits for."""
    await fill(namesrv, topic, 8, queues=2)
    sent = {b"after %d" % number for number in range(28)}
    missing, all_seen = set(sent), asyncio.Event()

    async def see(messages: list[StoredMessage]) -> None:
        missing.difference_update(message.body for message in messages)
        if not missing:
            all_seen.set()

    async with (
        PopConsumer(namesrv, f"g_{topic}", poll_ms=1_000) as consumer,
        Producer(namesrv, "p") as producer,
    ):
        consumer.on_message(see)
        await consumer.subscribe(topic)
        share = consumer.member.round

        async def share_late() -> bool:
            await asyncio.sleep(0.2)
            return await share()

        consumer.member.round = share_late  # type: ignore[method-assign]
        await consumer.start()
        for body in sent:
            await producer.send(Message(topic, body))
        async with asyncio.timeout(30):
            await all_seen.wait()


async def test_a_loop_pops_a_topic_and_acknowledges(namesrv: str, topic: str) -> None:
    bodies = await fill(namesrv, topic, 10)
    seen: list[bytes] = []
    group = f"g_{topic}"
    async with PopConsumer(namesrv, group, start="first", concurrency=1) as consumer:
        await consumer.subscribe(topic)
        async for message in consumer:
            seen.append(message.plain_body())
            if len(seen) == 10:
                break  # this one is not acknowledged
    last = Collector(1)
    async with PopConsumer(namesrv, group) as consumer:
        consumer.on_message(last)
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready(30)
        await last.wait()
    assert sorted(seen) == sorted(bodies)
    assert set(last.bodies) == {seen[-1]}


async def test_a_paused_consumer_pops_nothing(namesrv: str, topic: str) -> None:
    bodies = await fill(namesrv, topic, 6)
    collector = Collector(6)
    async with PopConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.pause()
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready(30)
        assert consumer.shares()
        assert not any(share.in_flight for share in consumer.member.shares.values())
        assert collector.seen == []
        consumer.resume()
        await collector.wait()
    assert sorted(collector.bodies) == sorted(bodies)


async def test_a_consumer_without_a_broker_is_not_ready() -> None:
    consumer = PopConsumer("127.0.0.1:1", "g")
    with pytest.raises(NotReachable, match=r"no share of the queues after 0\.05 s"):
        await consumer.ready(0.05)
    await consumer.close()


async def test_a_pop_consumer_has_a_listener_or_an_iterator() -> None:
    consumer = PopConsumer("127.0.0.1:1", "g")
    consumer.on_message(lambda messages: None)
    with pytest.raises(UsageError, match="has a listener"):
        aiter(consumer)
    await consumer.close()
