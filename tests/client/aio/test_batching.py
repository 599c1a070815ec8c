"""Messages that a producer sends in batches by itself."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotFound, NotReachable, Outcome, Refused, UsageError
from epochmq.client.aio import Admin, ClientHook, Producer, PullConsumer, SendResult
from epochmq.client.aio.batching import BYTES_MAX, COUNT_MAX, HALF_FROM, Batching, parts
from epochmq.client.aio.instance import Instance
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command

QUEUE = MessageQueue("T", "b", 0)


def result(count: int) -> SendResult:
    ids, places = (",".join(f"{kind}{n}" for n in range(count)) for kind in ("id", "at"))
    return SendResult(SendStatus.SEND_OK, ids, places, QUEUE, 100)


class Sent:
    """Remembers batches; `gate` holds them back."""

    def __init__(self, error: BaseException | None = None, bad: bytes | None = None) -> None:
        self.batches: list[list[bytes]] = []
        self.error = error
        self.bad = bad
        """The body that causes the error; None means that each batch does."""

    async def send(self, messages: Sequence[Message]) -> SendResult:
        bodies = [message.body for message in messages]
        self.batches.append(bodies)
        await asyncio.sleep(0)
        if self.error is not None and self.bad in (None, *bodies):
            raise self.error
        return result(len(messages))


def batching(sent: Sent, linger_ms: float = 0, in_flight: int = 2 * COUNT_MAX) -> Batching:
    def spawn(work: Any, name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)

    return Batching(sent.send, spawn, linger_ms, 4_096, lambda: in_flight)


async def test_what_is_sent_at_one_time_is_one_batch_for_each_topic() -> None:
    sent = Sent()
    maker = batching(sent)
    messages = [Message("AB"[n % 2], b"%d" % n) for n in range(6)]
    results = await asyncio.gather(*map(maker.send, messages))
    assert sent.batches == [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]
    assert [each.msg_id for each in results] == ["id0", "id0", "id1", "id1", "id2", "id2"]
    assert [each.queue_offset for each in results] == [100, 100, 101, 101, 102, 102]


async def test_the_first_message_waits_for_others() -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=50)
    first = asyncio.create_task(maker.send(Message("T", b"1")))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(maker.send(Message("T", b"2")))
    assert sent.batches == []
    await asyncio.gather(first, second)
    assert sent.batches == [[b"1", b"2"]]


@pytest.mark.parametrize(("size", "count"), [(1, COUNT_MAX), (BYTES_MAX // 4, 4)])
async def test_a_full_batch_waits_for_nothing(size: int, count: int) -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=10_000)
    async with asyncio.timeout(5):
        await asyncio.gather(*(maker.send(Message("T", b"x" * size)) for _ in range(2 * count)))
    assert [len(batch) for batch in sent.batches] == [count, count]


@pytest.mark.parametrize(("in_flight", "count"), [(100, 50), (20, HALF_FROM), (5_000, COUNT_MAX)])
async def test_half_of_what_is_in_flight_is_a_full_batch(in_flight: int, count: int) -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=10_000, in_flight=in_flight)
    async with asyncio.timeout(5):
        await asyncio.gather(*(maker.send(Message("T", b"x")) for _ in range(2 * count)))
    assert [len(batch) for batch in sent.batches] == [count, count]


async def test_an_error_reaches_every_sender_as_its_own_object() -> None:
    maker = batching(Sent(NotReachable("lost", Outcome.UNKNOWN)))
    results = await asyncio.gather(
        *(maker.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True
    )
    errors = [each for each in results if isinstance(each, NotReachable)]
    assert len({id(error) for error in errors}) == 3
    assert {(str(error), error.outcome) for error in errors} == {("lost", Outcome.UNKNOWN)}


@pytest.mark.parametrize(
    "error",
    [Refused(13, "illegal"), Refused(3, "unknown code"), UsageError("mistake"), TypeError("type")],
    ids=lambda error: f"{type(error).__name__} {error}",
)
async def test_a_batch_that_is_refused_for_good_is_sent_again_one_by_one(error: Exception) -> None:
    sent = Sent(error, b"1")
    maker = batching(sent)
    results = await asyncio.gather(
        *(maker.send(Message("T", b"%d" % n)) for n in range(3)), return_exceptions=True
    )
    assert [type(each) for each in results] == [SendResult, type(error), SendResult]
    assert sent.batches == [[b"0", b"1", b"2"], [b"0"], [b"1"], [b"2"]]


@pytest.mark.parametrize(
    "error",
    [
        Refused(13, "refused, but an earlier try may be stored", Outcome.UNKNOWN),
        Refused(2, "busy"),
        NotReachable("lost", Outcome.UNKNOWN),
        NotReachable("no master", Outcome.NOT_DONE),
        NotFound("no topic"),
        RuntimeError("after the answer"),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
async def test_another_failed_batch_is_not_sent_again(error: Exception) -> None:
    sent = Sent(error)
    maker = batching(sent)
    results = await asyncio.gather(
        *(maker.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in results] == [type(error)] * 3
    assert len(sent.batches) == 1


async def test_a_sender_that_is_cancelled_disturbs_no_other() -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=20)
    tasks = [asyncio.create_task(maker.send(Message("T", b"%d" % n))) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in done] == [SendResult, asyncio.CancelledError, SendResult]
    assert [each.queue_offset for each in done if isinstance(each, SendResult)] == [100, 102]


def test_which_messages_can_be_in_a_batch() -> None:
    maker = batching(Sent())
    assert maker.accepts(Message("T", b"x" * 4_095))
    assert not maker.accepts(Message("T", b"x" * 4_096)), "it would be compressed"
    assert not maker.accepts(Message("T", b"x", delay_level=3))
    assert not maker.accepts(Message("%RETRY%g", b"x"))
    assert not maker.accepts(Message("T", b"x", wait_stored=False))
    for name in ("DELAY", "TIMER_DELIVER_MS", "MSG_TYPE", "WAIT", "TRAN_MSG"):
        assert not maker.accepts(Message("T", b"x", properties={name: "1"}))
    wrong: Any = None
    assert not maker.accepts(Message(wrong, b"x"))
    assert not maker.accepts(Message("T", b"x", properties=wrong))


def test_the_result_of_a_batch_that_is_one_record() -> None:
    one_place = SendResult(SendStatus.SEND_OK, "a,b", "place", QUEUE, 7)
    assert [(p.msg_id, p.offset_msg_id, p.queue_offset) for p in parts(one_place, 2)] == [
        ("a", "place", 7), ("b", "place", 8)
    ]  # fmt: skip
    assert parts(one_place, 1) == [one_place]


async def test_each_message_is_where_its_result_says(namesrv: str, topic: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(topic, 4, 4))
    messages = [Message(topic, b"%d" % n, keys=(f"k{n}",)) for n in range(2_000)]
    async with Producer(namesrv, "p", linger_ms=1) as producer:
        results = await asyncio.gather(*map(producer.send, messages))
    assert len({each.msg_id for each in results}) == 2_000
    assert not any("UNIQ_KEY" in message.properties for message in messages)
    places = {(each.queue.queue_id, each.queue_offset): each.msg_id for each in results}
    assert len(places) == 2_000
    bodies = {each.msg_id: message.body for each, message in zip(results, messages, strict=True)}
    async with PullConsumer(namesrv, "g") as consumer:
        for queue in await consumer.queues(topic):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                pulled = await consumer.pull(queue, offset)
                for found in pulled.messages:
                    assert places[queue.queue_id, found.queue_offset] == found.msg_id
                    assert bodies[found.msg_id] == found.body
                offset = pulled.next_offset


async def test_what_cannot_wait_goes_alone(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", linger_ms=10_000) as producer, asyncio.timeout(20):
        await producer.send_ordered(Message(topic, b"1"), "k")
        await producer.send(Message(topic, b"2"), timeout_ms=3_000)
        await producer.send(Message(topic, b"3" * 5_000))
        first = (await producer.queues(topic))[0]
        await producer.send(Message(topic, b"4"), queue=first)


async def test_messages_wait_by_default_only_while_another_is_sent(
    namesrv: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    async with Producer(namesrv, "p") as producer:
        call = producer.instance.call

        async def noted(address: str, command: Command, timeout_ms: int) -> Command:
            codes.append(command.code)
            return await call(address, command, timeout_ms)

        await producer.queues(topic)
        monkeypatch.setattr(producer.instance, "call", noted)
        for n in range(3):
            await producer.send(Message(topic, b"%d" % n))
        assert codes == [RequestCode.SEND_MESSAGE_V2] * 3
        codes.clear()
        await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(100)))
        singles = [code for code in codes if code == RequestCode.SEND_MESSAGE_V2]
        assert len(singles) == 1  # the first found no other in flight
        assert len(codes) < 8
        codes.clear()
    async with Producer(namesrv, "p", linger_ms=None) as producer:
        await producer.queues(topic)
        monkeypatch.setattr(producer.instance, "call", noted)
        call = Instance.call.__get__(producer.instance)
        await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(10)))
    assert codes == [RequestCode.SEND_MESSAGE_V2] * 10


async def test_messages_that_are_together_too_large_for_a_broker_are_stored(topic: str) -> None:
    with EpochCluster(broker_config={"maxMessageSize": 4_096}) as small:
        async with Producer(small.namesrv_addr, "p") as producer:
            results = await asyncio.gather(
                *(producer.send(Message(topic, b"x" * 3_000)) for _ in range(5))
            )
        assert {each.status for each in results} == {SendStatus.SEND_OK}


@pytest.mark.parametrize("hooks", [(), (ClientHook(),)], ids=["alone", "with a hook"])
@pytest.mark.parametrize("namespace", [None, "ns"])
async def test_a_mistake_fails_no_other_send(
    namesrv: str, topic: str, hooks: tuple[ClientHook, ...], namespace: str | None
) -> None:
    number: Any = 7
    wrong = [
        Message(topic, b"x", keys=(number,)),
        Message(topic, b"x", tags=number),
        Message(topic, b"x", properties={"a": number}),
        Message(topic, b"x", flag=1 << 40),
        Message(topic, b"x", properties={"a": "y" * 40_000}),
        Message(topic, b"x", properties=number),
        Message(number, b"x"),
    ]
    right = [Message(topic, b"x") for _ in range(10)]
    async with Producer(namesrv, "p", hooks=hooks, namespace=namespace) as producer:
        await producer.queues(topic)
        for message in wrong:
            with pytest.raises((UsageError, Refused)):
                await producer.send(message)
        results = await asyncio.gather(
            *map(producer.send, right[:5] + wrong + right[5:]), return_exceptions=True
        )
    assert [type(each) for each in results[:5] + results[12:]] == [SendResult] * 10
    assert all(isinstance(each, UsageError | Refused) for each in results[5:12]), results[5:12]


async def test_a_message_that_waits_when_the_producer_is_closed_fails_at_once(
    namesrv: str, topic: str
) -> None:
    async with asyncio.timeout(10):
        async with Producer(namesrv, "p", linger_ms=60_000) as producer:
            send = asyncio.create_task(producer.send(Message(topic, b"x")))
            await asyncio.sleep(0.01)
        with pytest.raises(UsageError, match="closed before") as failed:
            await send
    assert failed.value.outcome is Outcome.NOT_DONE


async def test_a_batch_that_is_cut_off_by_the_end_of_the_producer_may_be_stored() -> None:
    sent = Sent(asyncio.CancelledError())
    maker = batching(sent)
    results = await asyncio.gather(
        *(maker.send(Message("T", b"x")) for _ in range(2)), return_exceptions=True
    )
    assert [(type(each), each.outcome) for each in results if isinstance(each, NotReachable)] == [
        (NotReachable, Outcome.UNKNOWN)
    ] * 2


async def test_mistakes(namesrv: str, topic: str) -> None:
    for wrong in (-1, 60_001):
        with pytest.raises(UsageError, match="linger_ms is"):
            Producer(namesrv, linger_ms=wrong)
    async with Producer(namesrv, "p", linger_ms=0) as producer:
        with pytest.raises(UsageError, match="control character"):
            await producer.send(Message(topic, b"x", properties={"a": "\x01"}))
        assert await producer.send(Message(topic, b"x"))
