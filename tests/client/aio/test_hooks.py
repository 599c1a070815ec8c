"""Hooks see each send and each listener call, and cannot harm them."""

import asyncio

import pytest
from tests.client.aio.collecting import Collector

from epochmq.base.errors import Refused, UsageError
from epochmq.client.aio import (
    ClientHook,
    ConsumeCall,
    ConsumeResult,
    PopConsumer,
    Producer,
    PushConsumer,
    SendCall,
    TransactionEnd,
    TransactionProducer,
    TransactionState,
)
from epochmq.client.aio.hooks import MessageKind
from epochmq.client.aio.instance import Instance
from epochmq.model.message import Message, StoredMessage

pytestmark = [pytest.mark.compat, pytest.mark.slow]


class Recorder(ClientHook):
    """Notes everything, in order."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.sends: list[SendCall] = []
        self.calls: list[ConsumeCall] = []
        self.ends: list[TransactionEnd] = []

    async def open(self, instance: Instance) -> None:
        self.steps.append("open")

    async def close(self) -> None:
        self.steps.append("close")

    def begin_send(self, call: SendCall) -> None:
        self.steps.append("begin_send")
        for message in call.messages:
            message.properties["added"] = "by a hook"

    def end_send(self, call: SendCall) -> None:
        self.steps.append("end_send")
        self.sends.append(call)

    def begin_consume(self, call: ConsumeCall) -> None:
        self.steps.append("begin_consume")

    def end_consume(self, call: ConsumeCall) -> None:
        self.steps.append("end_consume")
        self.calls.append(call)

    def end_transaction(self, end: TransactionEnd) -> None:
        self.ends.append(end)


class Broken(ClientHook):
    """Fails in every step."""

    def begin_send(self, call: SendCall) -> None:
        raise RuntimeError("begin_send")

    def end_send(self, call: SendCall) -> None:
        raise RuntimeError("end_send")

    def begin_consume(self, call: ConsumeCall) -> None:
        raise RuntimeError("begin_consume")

    def end_consume(self, call: ConsumeCall) -> None:
        raise RuntimeError("end_consume")

    def end_transaction(self, end: TransactionEnd) -> None:
        raise RuntimeError("end_transaction")

    async def close(self) -> None:
        raise RuntimeError("close")


class Closed(ClientHook):
    """Cannot be opened."""

    async def open(self, instance: Instance) -> None:
        raise UsageError("not today")

    async def close(self) -> None:
        raise AssertionError("it was never open")


async def test_a_send_with_its_result(namesrv: str, topic: str) -> None:
    hook = Recorder()
    message = Message(topic, b"one")
    async with Producer(namesrv, "p", hooks=[hook]) as producer:
        result = await producer.send(message)
        await producer.send_ordered(Message(topic, b"two"), "key")
        await producer.send(Message(topic, b"three", delay_level=1))
    assert hook.steps == ["open", *["begin_send", "end_send"] * 3, "close"]
    first, second, third = hook.sends
    assert (first.result, first.error, first.group) == (result, None, "p")
    assert first.address is not None
    assert "added" not in message.properties  # what the application gave stays as it is
    assert [each.kind for each in (first, second, third)] == [
        MessageKind.NORMAL,
        MessageKind.ORDERED,
        MessageKind.DELAYED,
    ]


async def test_what_a_hook_adds_is_stored(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", hooks=[Recorder()]) as producer:
        await producer.send(Message(topic, b"one"))
        batch = [Message(topic, b"two"), Message(topic, b"three")]
        sent = await producer.send_batch(batch)
        assert sent.msg_id == ",".join(each.properties["UNIQ_KEY"] for each in batch)
    collector = Collector(3)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    assert {each.properties["added"] for each in collector.accepted} == {"by a hook"}


async def test_a_send_that_fails(namesrv: str, topic: str) -> None:
    hook = Recorder()
    async with Producer(namesrv, "p", hooks=[hook]) as producer:
        with pytest.raises((UsageError, Refused)):
            await producer.send(Message(topic, b"x" * (5 << 20)))
        task = asyncio.create_task(producer.send(Message(topic, b"cancelled")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [each.result for each in hook.sends] == [None, None]
    assert all(each.error is not None for each in hook.sends)


@pytest.mark.parametrize("kind", [PushConsumer, PopConsumer])
async def test_listener_calls_with_their_ends(
    namesrv: str, topic: str, kind: type[PushConsumer] | type[PopConsumer]
) -> None:
    hook, seen = Recorder(), asyncio.Event()
    async with Producer(namesrv) as producer:
        for body in (b"done", b"later", b"raise"):
            await producer.send(Message(topic, body))

    async def listener(messages: list[StoredMessage]) -> ConsumeResult:
        if len(hook.calls) == 2:
            asyncio.get_running_loop().call_later(0.05, seen.set)
        body = bytes(messages[0].body)
        if body == b"raise":
            raise ValueError("broken")
        return ConsumeResult.SUCCESS if body == b"done" else ConsumeResult.LATER

    async with kind(namesrv, f"g_{topic}", start="first", hooks=[hook]) as consumer:
        consumer.on_message(listener)
        await consumer.subscribe(topic)
        await consumer.start()
        async with asyncio.timeout(30):
            await seen.wait()
    ends = {bytes(each.messages[0].body): each for each in hook.calls[:3]}
    assert ends[b"done"].is_done
    assert (ends[b"later"].is_done, ends[b"later"].error) == (False, None)
    assert isinstance(ends[b"raise"].error, ValueError)
    assert hook.steps[0] == "open"
    assert hook.steps[-1] == "close"
    assert {each.group for each in hook.calls} == {f"g_{topic}"}


class Always:
    """A listener that always decides the same."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    def execute_local(self, message: Message, arg: object) -> TransactionState:
        return self._state

    def check(self, message: StoredMessage) -> TransactionState:
        return self._state


@pytest.mark.parametrize("state", [TransactionState.COMMIT, TransactionState.ROLLBACK])
async def test_the_end_of_a_transaction(namesrv: str, topic: str, state: TransactionState) -> None:
    hook = Recorder()
    async with Producer(namesrv) as producer:
        await producer.send(Message(topic, b"makes the topic"))
    async with TransactionProducer(namesrv, "tx", Always(state), hooks=[hook]) as producer:
        sent = await producer.send_in_transaction(Message(topic, b"half", "tag", ("key",)))
    (call,) = hook.sends
    assert (call.kind, call.result) == (MessageKind.HALF, sent.send)
    (end,) = hook.ends
    assert (end.msg_id, end.topic) == (sent.send.msg_id, topic)
    assert end.is_committed is (state is TransactionState.COMMIT)
    assert not end.is_answer_to_check


async def test_a_hook_that_fails_harms_nothing(
    namesrv: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    after = Recorder()
    collector = Collector(1)
    hooks = [Broken(), after]
    async with Producer(namesrv, hooks=hooks) as producer:
        await producer.send(Message(topic, b"one"))
    async with PushConsumer(namesrv, f"g_{topic}", start="first", hooks=hooks) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    assert after.sends[0].result is not None
    assert after.calls[0].is_done
    assert "the hook Broken failed in begin_consume" in caplog.text
    assert caplog.text.count("the hook Broken failed in close") == 2
    assert after.steps.count("close") == 2
    assert producer.instance.is_closed
    assert consumer.instance.is_closed


async def test_a_client_whose_hook_cannot_open_does_not_start(namesrv: str, topic: str) -> None:
    before = Recorder()
    hooks = [before, Closed(), Recorder()]
    producer = Producer(namesrv, hooks=hooks)
    with pytest.raises(UsageError, match="not today"):
        await producer.__aenter__()
    assert before.steps == ["open", "close"]
    assert producer.instance.is_closed
    for kind in (PushConsumer, PopConsumer):
        before.steps.clear()
        async with kind(namesrv, f"g_{topic}", hooks=hooks) as consumer:
            consumer.on_message(Collector(1))
            await consumer.subscribe(topic)
            with pytest.raises(UsageError, match="not today"):
                await consumer.start()
            assert before.steps == ["open", "close"]


async def test_what_is_no_hook_is_told(namesrv: str) -> None:
    with pytest.raises(UsageError, match="ClientHook"):
        Producer(namesrv, hooks=[print])  # type: ignore[list-item]
