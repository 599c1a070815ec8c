"""However a listener ends: the consumer goes on with the next message, and says what happened."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest
from tests.client.aio.test_subscribing import message

from epochmq.base.errors import UsageError
from epochmq.client.aio import ConsumeResult, PopConsumer, Producer, PushConsumer
from epochmq.client.aio.listening import UserListener, call_listener
from epochmq.model.message import Message, StoredMessage


class NoException(BaseException):
    """As pytest's own outcomes, or a TaskGroup's BaseExceptionGroup."""


async def await_what_is_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize(
    "error", [ValueError("x"), asyncio.CancelledError(), NoException(), StopAsyncIteration()]
)
async def test_whatever_is_raised_means_later(error: BaseException, caplog) -> None:
    async def broken(messages: Sequence[StoredMessage]) -> ConsumeResult:
        raise error

    assert await call_listener(broken, [message("A")]) is ConsumeResult.LATER
    assert type(error).__name__ in caplog.text


async def test_a_cancelled_consumer_ends_and_a_stale_cancel_does_not_count() -> None:
    began = asyncio.Event()

    async def waits(messages: Sequence[StoredMessage]) -> ConsumeResult:
        began.set()
        await asyncio.Event().wait()
        return ConsumeResult.SUCCESS

    task = asyncio.create_task(call_listener(waits, [message("A")]))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def cancelled_before(messages: Sequence[StoredMessage]) -> ConsumeResult:
        raise asyncio.CancelledError

    async def work() -> ConsumeResult:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass  # some libraries end so, without uncancel()
        return await call_listener(cancelled_before, [message("A")])

    assert await asyncio.create_task(work()) is ConsumeResult.LATER


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_the_end_of_the_program_ends_the_loop_and_keeps_the_message(
    ending: BaseException,
) -> None:
    results = []

    async def ends(messages: Sequence[StoredMessage]) -> ConsumeResult:
        raise ending

    async def main() -> None:
        results.append(await call_listener(ends, [message("A")]))
        await asyncio.Event().wait()

    with pytest.raises(type(ending)):
        asyncio.run(main())
    assert results == [ConsumeResult.LATER]


@pytest.mark.parametrize("result", [True, 0, "SUCCESS", [], object()])
async def test_what_is_no_result_means_later_and_is_said_once(result: object, caplog) -> None:
    listener = UserListener("g")
    listener.function = lambda _messages: result  # type: ignore[assignment,return-value]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await listener.call([message("A")]) is ConsumeResult.LATER
    assert caplog.text.count("counts as LATER") == 1


async def test_a_plain_function_and_none_will_do() -> None:
    listener = UserListener("g")
    with pytest.raises(UsageError, match="on_message"):
        listener.check_set()
    listener.function = lambda _messages: None
    assert await listener.call([message("A")]) is ConsumeResult.SUCCESS


@pytest.mark.parametrize("kind", ["push", "ordered", "pop"])
async def test_no_failure_of_a_listener_stops_a_consumer(
    namesrv: str, topic: str, kind: str
) -> None:
    """More failures than workers, in each way; then the others are handled, and close returns."""
    async with Producer(namesrv, "p") as producer:
        for number in range(12):
            await producer.send(Message(topic, b"%d" % number))
    failures: list[Callable[[], object]] = [
        await_what_is_cancelled,
        _raises(asyncio.CancelledError()),
        _raises(NoException()),
        _raises(ValueError()),
    ]
    handled: set[bytes] = set()
    enough = asyncio.Event()

    async def listen(messages: list[StoredMessage]) -> None:
        if failures:
            await failures.pop()()  # type: ignore[misc]
        handled.update(m.body for m in messages)
        if len(handled) >= 8:
            enough.set()

    group = f"g_{topic}"
    consumer: PopConsumer | PushConsumer
    if kind == "pop":
        consumer = PopConsumer(namesrv, group, start="first", concurrency=2)
    else:
        ordered = kind == "ordered"
        consumer = PushConsumer(namesrv, group, start="first", concurrency=2, ordered=ordered)
    consumer.on_message(listen)
    await consumer.subscribe(topic)
    async with asyncio.timeout(60):
        await consumer.start()
        await enough.wait()
        await consumer.close()


def _raises(error: BaseException) -> Callable[[], object]:
    async def call() -> None:
        raise error

    return call
