"""Sends the requests of one sink task and retries each until a broker acknowledges it.

Within a sink queue, requests are sent one at a time; sink queues are sent concurrently. A request
that no master accepts is retried for `failoverTimeoutMs`. A row counts as written only after a
broker has answered SEND_OK.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError
from epochmq.client.aio.producer import Producer
from epochmq.client.core.retrying import delay_ms
from epochmq.client.core.route_cache import publish_queues
from epochmq.client.core.send_policy import SendStatus, SendVerdict, judge
from epochmq.client.core.send_result import SendResult
from epochmq.model.topic import PERM_WRITE, MessageQueue, TopicRouteData, format_perm
from epochmq.runtime.address_map import mapped_addresses
from epochmq.runtime.tls import client_tls
from epochmq.spark.connection_options import credentials_in
from epochmq.spark.sink_options import SinkOptions
from epochmq.spark.sink_queues import QueueLayout, Request, SinkQueue, spread
from epochmq.wire.codes import RequestCode

T = TypeVar("T")

PAUSE_MS_MAX = 1_000
UNSURE_MAX = 5
"""How often a request is retried that a broker stored, but not as safely as configured."""
NO_TIMER = "timer message is not enabled"
"""RocketMQ's text, under a code that also stands for temporary errors."""


class _SinkProducer(Producer):
    """A producer that sends complete requests."""

    async def send_request(self, request: Request, timeout_ms: int) -> SendResult:
        code = RequestCode.SEND_BATCH_MESSAGE if request.is_batch else RequestCode.SEND_MESSAGE_V2
        return await self._send(request.outgoing, code, request.queue, timeout_ms)


class QueueBacklog:
    """The requests of one sink queue that wait for the one before them."""

    def __init__(self, sink_queue: SinkQueue) -> None:
        self.sink_queue = sink_queue
        self.waiting: deque[Request] = deque()
        self.wake = asyncio.Event()


class SinkSender:
    """Sends all requests of one task. All methods run in one event loop."""

    def __init__(self, options: SinkOptions, partition: int) -> None:
        self._options = options
        self._partition = partition
        with mapped_addresses(options.address_map):
            self._producer = _SinkProducer(
                options.name_server,
                options.producer_group,
                timeout_ms=options.send_timeout_ms,
                tls=client_tls(options.tls),
                credentials=credentials_in(options.tls),
            )
        self._lines: dict[int, QueueBacklog] = {}
        self._workers: list[asyncio.Task[None]] = []
        self._unsent_bytes = 0
        self._unsent = 0
        self._room = asyncio.Event()
        self._error: BaseException | None = None
        self.requests = 0

    async def start(self) -> None:
        await self._producer.__aenter__()

    async def close(self) -> None:
        """Stop all work; requests without an acknowledgement may or may not be stored."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await self._producer.close()

    async def layout(self, topic: str) -> QueueLayout:
        """Return the writable queues of `topic`; waits while its brokers are not reachable.

        Raises `UsageError` for a topic that may not be written, or is missing and not to be
        created.
        """

        async def ask() -> QueueLayout:
            routes = self._producer.instance.routes
            await self._find_route(topic)
            check_writable(topic, routes.route(topic) or TopicRouteData())
            await self._producer.queues(topic)
            return spread(writable_queues(topic, routes.route(topic) or TopicRouteData()))

        return await self._patiently(f"topic {topic}", ask)

    async def _find_route(self, topic: str) -> None:
        """Get the route; raises `UsageError` for a missing topic if createTopics=false."""
        creates = self._options.create_topics
        try:
            await self._producer.instance.ensure_route(topic, create=creates)
        except NotFound as error:
            if creates:
                raise
            raise UsageError(
                f"topic {topic} is not there, and createTopics=false: check the name, or create it"
                f" with `epochmq topic create` ({error})"
            ) from None

    async def offer(self, requests: Iterable[tuple[SinkQueue, Request]]) -> None:
        """Queue `requests`; waits while more than `bufferBytes` are not acknowledged.

        Raises the error of an earlier request.
        """
        for sink_queue, request in requests:
            most = self._options.buffer_bytes - request.size
            while self._unsent_bytes > max(most, 0) and self._error is None:
                await self._news()
            self._check()
            self._unsent += 1
            self._unsent_bytes += request.size
            line = self._line(sink_queue)
            line.waiting.append(request)
            line.wake.set()

    async def drain(self) -> None:
        """Wait until brokers have acknowledged all requests; raises the first error."""
        while self._unsent and self._error is None:
            await self._news()
        self._check()

    async def _news(self) -> None:
        """Wait until another request has ended."""
        self._room.clear()
        await self._room.wait()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _line(self, sink_queue: SinkQueue) -> QueueBacklog:
        line = self._lines.get(id(sink_queue))
        if line is None:
            line = self._lines[id(sink_queue)] = QueueBacklog(sink_queue)
            self._workers.append(asyncio.create_task(self._work(line)))
        return line

    async def _work(self, line: QueueBacklog) -> None:
        while self._error is None:
            if not line.waiting:
                line.wake.clear()
                await line.wake.wait()
                continue
            request = line.waiting.popleft()
            try:
                await self._deliver(request)
            except Exception as error:
                self._fail(error)
            finally:
                self._unsent -= 1
                self._unsent_bytes -= request.size
                self._room.set()

    def _fail(self, error: Exception) -> None:
        """Keep the first error, at which all workers stop."""
        if self._error is None:
            self._error = error

    async def _deliver(self, request: Request) -> None:
        """Send a request until it is acknowledged."""
        unsure = 0

        async def send() -> SendResult:
            nonlocal unsure
            result = await self._producer.send_request(request, self._options.send_timeout_ms)
            if result.status is not SendStatus.SEND_OK:
                unsure += 1
                raise _Unsure(f"the broker stored it and answers {result.status.value}")
            return result

        await self._patiently(self._name(request), send, lambda: unsure >= UNSURE_MAX)
        self.requests += 1

    def _name(self, request: Request) -> str:
        rows = f"row {request.first_row}"
        if request.is_batch:
            rows = f"rows {request.first_row} to {request.last_row}"
        return f"{rows} of partition {self._partition} for topic {request.outgoing.topic}"

    async def _patiently(
        self, what: str, work: Callable[[], Awaitable[T]], enough: Callable[[], bool] = bool
    ) -> T:
        """Return the result of `work`, repeated while a failover may be the reason of an error.

        Stops retrying after `failoverTimeoutMs`, or when `enough` returns true.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.failover_timeout_ms / 1_000
        for attempt in range(1, 1 << 30):
            try:
                return await work()
            except (NotReachable, NotFound, Refused) as error:
                pause_s = delay_ms(attempt, self._producer.instance.rng, most_ms=PAUSE_MS_MAX) / 1e3
                if _is_final(error) or enough() or loop.time() + pause_s > deadline:
                    raise _told(what, error) from None
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")


class _Unsure(NotReachable):
    """The broker stored the message, but it may be lost if the master fails now."""


def _is_final(error: EpochError) -> bool:
    if not isinstance(error, Refused):
        return False
    return judge(error.code) is SendVerdict.RAISE or NO_TIMER in error.remark


def _told(what: str, error: EpochError) -> EpochError:
    text = f"{what}: {error}"
    if isinstance(error, Refused):
        return Refused(error.code, text)
    return type(error)(text)


def check_writable(topic: str, route: TopicRouteData) -> None:
    """Raise `UsageError` for a topic that is not writable at any broker; waiting would not help.

    Where a slave acts as master, the name server shows every topic as read-only for a time; this
    does not raise.
    """
    if any(data.enable_acting_master for data in route.broker_datas) or not route.queue_datas:
        return
    if not any(data.perm & PERM_WRITE for data in route.queue_datas):
        perms = "/".join(sorted({format_perm(data.perm) for data in route.queue_datas}))
        raise UsageError(
            f"topic {topic} may not be written: its permission is {perms} at every broker; change"
            " it with `epochmq topic update`, or write to another topic"
        )


def writable_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Return all writable queues, including those of broker groups that have no master now.

    A failover must not change the queue of a key.
    """
    if route.order_topic_conf:
        return publish_queues(topic, route)
    return tuple(
        MessageQueue(topic, data.broker_name, index)
        for data in route.queue_datas
        if data.perm & PERM_WRITE
        for index in range(data.write_queue_nums)
    )
