"""Requests and replies, between clients of ours."""

import asyncio

import pytest
from tests.client.stored import stored

from epochmq import Message, Producer, PushConsumer, StoredMessage, reply_to
from epochmq.base.errors import NotReachable, Outcome, UsageError
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.request_reply import RequestReply
from epochmq.client.core.namespaces import NO_NAMESPACE
from epochmq.client.sync import Producer as BlockingProducer
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command


async def answering(namesrv: str, topic: str, producer: Producer) -> PushConsumer:
    """Return a started consumer that replies to each message with its body in capitals."""
    consumer = PushConsumer(namesrv, f"g_{topic}", start="first")

    @consumer.on_message
    async def answer(messages: list[StoredMessage]) -> None:
        for message in messages:
            if message.plain_body() != b"silent":
                await producer.send(reply_to(message, message.plain_body().upper()))

    await consumer.subscribe(topic)
    await consumer.start()
    return consumer


async def test_each_request_gets_its_own_reply(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "asks") as asker, Producer(namesrv, "answers") as replier:
        await asker.send(Message(topic, b"silent"))
        consumer = await answering(namesrv, topic, replier)
        words = [b"word %d" % n for n in range(20)]
        replies = await asyncio.gather(
            *(asker.request(Message(topic, word), timeout_ms=20_000) for word in words)
        )
        assert [reply.plain_body() for reply in replies] == [word.upper() for word in words]
        with pytest.raises(NotReachable, match="no reply to the request") as caught:
            await asker.request(Message(topic, b"silent"), timeout_ms=300)
        assert caught.value.outcome is Outcome.UNKNOWN
        assert asker._requests._waiting == {}
        await consumer.close()


async def test_a_blocking_client_asks_too(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "answers") as replier:
        await replier.send(Message(topic, b"silent"))
        consumer = await answering(namesrv, topic, replier)

        def ask() -> bytes:
            with BlockingProducer(namesrv, "asks") as asker:
                return asker.request(Message(topic, b"a"), timeout_ms=20_000).plain_body()

        assert await asyncio.to_thread(ask) == b"A"
        await consumer.close()


def test_a_message_that_asks_for_nothing_gets_no_reply() -> None:
    with pytest.raises(UsageError, match="asks for no reply: it has no CORRELATION_ID"):
        reply_to(stored(), b"x")


@pytest.mark.parametrize("ext", [{}, {"bornHost": "nowhere"}])
async def test_a_reply_that_cannot_be_read_is_refused(ext: dict[str, str]) -> None:
    instance = Instance("127.0.0.1:1")
    RequestReply(instance, NO_NAMESPACE)
    handler = instance.handlers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT]
    command = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=ext)
    answer = handler(command, None)  # type: ignore[arg-type]
    assert answer is not None
    assert "the reply cannot be read" in (answer.remark or "")
    await instance.close()
