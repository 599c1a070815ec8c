"""Batches that a producer makes of messages that are sent at the same time (`linger_ms`).

A batch that brokers refuse for good is sent again as single messages, so that each sender learns
about its own message only: together they may be larger than a broker allows, and one of them may be
the cause.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from epochmq.base.errors import NotReachable, Outcome, Refused, UsageError, copy_of
from epochmq.client.aio.in_flight import closed_before
from epochmq.client.core.send_policy import SendVerdict, judge
from epochmq.client.core.send_result import SendResult
from epochmq.model import property_names as names
from epochmq.model.message import Message
from epochmq.model.names import is_retry_topic

BYTES_MAX = 256 * 1024
"""Bodies of one batch."""
COUNT_MAX = 1_000
"""Messages of one batch."""
HALF_FROM = 16
"""From so many messages on, a batch is full if it holds half of all sends in flight: the producer
makes the next one while the broker stores it."""

_ALONE = frozenset(
    {
        names.DELAY,
        names.TIMER_DELAY_MS,
        names.TIMER_DELAY_SEC,
        names.TIMER_DELIVER_MS,
        names.MSG_TYPE,
        names.TRAN_MSG,
        names.WAIT,
    }
)
"""Properties by which a broker treats one message in another way."""

_CUT_OFF = "the client was closed while the message was sent: it may be stored or not"

_Waiter = asyncio.Future[SendResult]

SendAll = Callable[[Sequence[Message]], Awaitable[SendResult]]
"""Sends messages of one topic in one request."""


@dataclass(eq=False, slots=True)
class _OpenBatch:
    """Messages of one topic that wait to be sent together."""

    messages: list[Message] = field(default_factory=list)
    results: list[_Waiter] = field(default_factory=list)
    size: int = 0


class Batching:
    """Collects messages for `linger_ms`, or until a batch is full.

    Args:
        send_all: sends a batch.
        spawn: runs a coroutine as a task of the producer.
        linger_ms: how long the first message of a batch waits for others; 0 means until the event
            loop has run what is ready now.
        alone_from_bytes: larger bodies are not for a batch, because batches are not compressed.
        in_flight: returns how many sends are in flight, with those that wait here.
    """

    def __init__(
        self,
        send_all: SendAll,
        spawn: Callable[..., asyncio.Task[None]],
        linger_ms: float,
        alone_from_bytes: int,
        in_flight: Callable[[], int],
    ) -> None:
        self._send_all = send_all
        self._spawn = spawn
        self.linger_ms: float = linger_ms
        self._alone_from_bytes = min(alone_from_bytes, BYTES_MAX)
        self._in_flight = in_flight
        self._open: dict[str, _OpenBatch] = {}

    def accepts(self, message: Message) -> bool:
        """Whether the message can be in a batch: it is small, and the broker has to do nothing with
        it but store it. A message with a field of a wrong type cannot.
        """
        try:
            return (
                len(message.body) < self._alone_from_bytes
                and not message.is_delayed
                and message.wait_stored
                and _ALONE.isdisjoint(message.properties)
                and not is_retry_topic(message.topic)
            )
        except (TypeError, AttributeError):
            return False

    async def send(self, message: Message) -> SendResult:
        """Send a message with others; return its own result. Raises as the send of the batch."""
        batch = self._open.get(message.topic)
        loop = asyncio.get_running_loop()
        if batch is None:
            batch = self._open[message.topic] = _OpenBatch()
            loop.call_later(self.linger_ms / 1_000, self._close, message.topic, batch)
        result: _Waiter = loop.create_future()
        batch.messages.append(message)
        batch.results.append(result)
        batch.size += len(message.body)
        full = min(COUNT_MAX, max(HALF_FROM, self._in_flight() // 2))
        if batch.size >= BYTES_MAX or len(batch.messages) >= full:
            self._close(message.topic, batch)
        return await result

    def close(self) -> None:
        """Fail the messages that wait for others; batches that are being sent are not concerned."""
        waiting, self._open = self._open, {}
        for batch in waiting.values():
            _fail(batch.results, closed_before())

    def _close(self, topic: str, batch: _OpenBatch) -> None:
        """Send a batch, unless that was done because it was full."""
        if self._open.get(topic) is batch:
            del self._open[topic]
            self._spawn(self._send(batch.messages, batch.results), f"batch of {topic}")

    async def _send(self, messages: list[Message], results: list[_Waiter]) -> None:
        try:
            result = await self._send_all(messages)
        except BaseException as error:
            if len(messages) > 1 and _is_for_good(error):
                pairs = zip(messages, results, strict=True)
                await asyncio.gather(*(self._send([message], [own]) for message, own in pairs))
                return
            is_closing = isinstance(error, asyncio.CancelledError)
            _fail(results, NotReachable(_CUT_OFF, Outcome.UNKNOWN) if is_closing else error)
            if not isinstance(error, Exception):
                raise
            return
        for waiter, part in zip(results, parts(result, len(messages)), strict=True):
            if not waiter.done():
                waiter.set_result(part)


def _fail(results: list[_Waiter], error: BaseException) -> None:
    for waiter in results:
        if not waiter.done():
            waiter.set_exception(copy_of(error))


def _is_for_good(error: BaseException) -> bool:
    """Whether no message of the batch is stored, nor will be if they are sent together again."""
    if isinstance(error, Refused):
        return error.outcome is Outcome.NOT_DONE and judge(error.code) is SendVerdict.RAISE
    return isinstance(error, UsageError | TypeError | AttributeError | struct.error)


def parts(result: SendResult, count: int) -> list[SendResult]:
    """Return the result of each message of a batch of `count` messages."""
    if count == 1:
        return [result]
    ids = result.msg_id.split(",")
    places = result.offset_msg_id.split(",")
    if len(places) != count:  # a topic that stores a batch as one record has one place
        places = [result.offset_msg_id] * count
    status, queue, first = result.status, result.queue, result.queue_offset
    rest = result.transaction_id, None, result.region_id, result.is_traced
    return [
        SendResult(status, msg_id, place, queue, first + n, *rest)
        for n, (msg_id, place) in enumerate(zip(ids, places, strict=True))
    ]
