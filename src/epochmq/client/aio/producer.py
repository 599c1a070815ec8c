"""The asyncio producer: sends messages, waits for the answer and repeats failed tries."""

import asyncio
import itertools
import ssl
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Literal, Self

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import (
    EpochError,
    NotReachable,
    Outcome,
    PeerError,
    Refused,
    UsageError,
)
from epochmq.base.limits import CLIENT_IN_FLIGHT_BYTES_MAX
from epochmq.client.aio.batching import Batching
from epochmq.client.aio.hooks import ClientHook, Hooks, MessageKind, SendCall, kind_of
from epochmq.client.aio.in_flight import Deadline, InFlight, LoopTime
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.aio.publish_routes import PublishRoutes
from epochmq.client.aio.request_reply import RequestReply
from epochmq.client.aio.send_problems import explained, more_telling, worse
from epochmq.client.aio.silent_masters import SilentMasters
from epochmq.client.core.namespaces import Namespace
from epochmq.client.core.outgoing import (
    COMPRESS_OVER_BYTES,
    Outgoing,
    body_bytes,
    check,
    check_kind,
    check_text,
    prepare,
    prepare_batch,
)
from epochmq.client.core.retrying import delay_ms
from epochmq.client.core.send_command import send_code, send_command
from epochmq.client.core.send_policy import (
    FaultTable,
    RoundRobin,
    SendStatus,
    SendVerdict,
    by_key,
    judge,
)
from epochmq.client.core.send_result import SendResult, result_of
from epochmq.model import property_names as names
from epochmq.model.compression import compressor
from epochmq.model.message import Message, StoredMessage
from epochmq.model.names import check_group, check_topic
from epochmq.model.recall_handle import parse as parse_handle
from epochmq.model.topic import MessageQueue
from epochmq.runtime.peers import IN_FLIGHT_MAX
from epochmq.wire.bodies.group_bodies import HeartbeatData, ProducerData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import RecallHeader, RecallResponseHeader

SEND_TIMEOUT_MS = 3_000
RETRIES = 2
IN_FLIGHT = 1_000
LINGER_MS_MAX = 60_000
COMPRESS_IN_THREAD_BYTES = 64 * 1024
"""zlib needs 40 ms for a MiB: bodies from this size on would stop the event loop for too long."""
AGAIN_MS_MAX = 100
"""The longest pause between two tries. It is short because a failover takes a few hundred
milliseconds."""


class Producer(Closing):
    """Sends messages. Use as `async with Producer("127.0.0.1:9876", "group") as producer: ...`.

    A failed send is repeated within `timeout_ms`. While no master can be reached, as during a
    failover, the number of tries has no limit. When a broker refused, at most `retries` further
    tries follow. If an answer is lost, a message may be stored twice, both times with the same
    `UNIQ_KEY`.

    At most `max_in_flight` sends, with bodies of 8 MiB together, wait for their answers at a time.
    Above 1,000 the limit adapts: it rises while sends finish within a quarter of their timeout.
    Further calls wait for their turn in order; `timeout_ms` begins with their turn. Time in which
    other code blocks the event loop does not count, up to three times `timeout_ms`.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        group: name of the producer group.
        retries: how many more times a send is tried after a broker refused it; 0 means one try
            only, also when no broker answers.
        timeout_ms: milliseconds for one send with all its tries.
        avoid_faulty: whether to prefer other brokers for a while after a broker was slow or failed.
        compress_over_bytes: bodies of this many bytes or more are compressed; batches never are.
            Bodies of 64 KiB or more are compressed in a thread.
        compression: "zlib", "lz4" or "zstd". All clients read zlib; the others need RocketMQ 5
            clients, and here the extra `compression`.
        retry_when_not_store_ok: whether a result other than SEND_OK is tried again.
        max_in_flight: how many sends may wait for answers, from 1 to 65,535.
        linger_ms: messages that are sent at the same time go to the broker in batches, and `send`
            returns each message's own result. With 0 no message waits for one that is sent later;
            otherwise the first of a batch waits so many milliseconds. None sends each message in a
            request of its own. Ordered, delayed and compressed messages, and sends to a chosen
            queue or with a timeout of their own, are never in such a batch.
        namespace: added to names of topics and groups, as RocketMQ's clients do (`NAMESPACE%NAME`);
            results and messages show the names without it. None means no namespace.
        tls: settings of TLS; None means the setting of the process, by default no TLS.
        credentials: the user who signs the requests; None means the user of the process, if any.
        hooks: see each send, for example `MessageTrace()` or `OpenTelemetry()`.

    Raises:
        UsageError: an argument has a wrong type or value.
        CodecMissing: the library of `compression` is not installed.
        Refused: `group` is not a valid group name (code 1).
    """

    def __init__(
        self,
        namesrv: str,
        group: str = "DEFAULT_PRODUCER",
        *,
        retries: int = RETRIES,
        timeout_ms: int = SEND_TIMEOUT_MS,
        avoid_faulty: bool = True,
        compress_over_bytes: int = COMPRESS_OVER_BYTES,
        compression: Literal["zlib", "lz4", "zstd"] = "zlib",
        retry_when_not_store_ok: bool = False,
        max_in_flight: int = IN_FLIGHT,
        linger_ms: float | None = 0,
        namespace: str | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        hooks: Iterable[ClientHook] = (),
    ) -> None:
        check_text("group", group)
        self._namespace = Namespace(namespace)
        group = self._namespace.wrap(group)
        check_group(group)
        if not 1 <= max_in_flight <= IN_FLIGHT_MAX:
            raise UsageError(f"max_in_flight is {max_in_flight}; from 1 to {IN_FLIGHT_MAX} can be")
        self.group = group
        self.retries = retries
        self.timeout_ms = timeout_ms
        self.compress_over_bytes = compress_over_bytes
        self._codec = compression
        self._compression = compressor(compression)
        self.retry_when_not_store_ok = retry_when_not_store_ok
        self.instance: Instance = Instance(namesrv, tls=tls, credentials=credentials)
        self.instance.beat_with(self._heartbeat)
        self._fault = FaultTable()
        self._round_robin = RoundRobin(self.instance.rng, self._fault if avoid_faulty else None)
        self._publish_routes = PublishRoutes(self.instance)
        self._silent_masters = SilentMasters(self.instance)
        self._loop_time = LoopTime(self.instance.clock.now_ms)
        self._in_flight = InFlight(max_in_flight, CLIENT_IN_FLIGHT_BYTES_MAX)
        self._hooks = Hooks(hooks)
        self._requests = RequestReply(self.instance, self._namespace)
        self._batching: Batching | None = None
        if linger_ms is not None:
            if not 0 <= linger_ms <= LINGER_MS_MAX:
                raise UsageError(f"linger_ms is {linger_ms}; from 0 to {LINGER_MS_MAX} can be")
            self._batching = Batching(
                self._send_together,
                self.instance.spawn,
                linger_ms,
                compress_over_bytes,
                lambda: self._in_flight.count,
            )
        self._started = False

    async def start(self) -> None:
        """Open the producer, for a program that cannot use `async with`; `close` ends it.

        A second call does nothing.

        Raises:
            UsageError: this client is closed or belongs to another event loop or process.
        """
        self.instance.check_usable()
        if self._started:
            return
        self._started = True
        await self.instance.start()
        try:
            await self._hooks.open(self.instance)
            self.instance.spawn(self._silent_masters.watch(), "silent masters")
            await self._prepare_start()
        except BaseException:
            await self.close()
            raise

    async def _prepare_start(self) -> None:
        """Do what a subclass needs before the first send."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _close(self) -> None:
        self._in_flight.close()
        if self._batching is not None:
            self._batching.close()
        await self._hooks.close()
        await self.instance.close(producer=self.group)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send `message` and wait until a broker holds it.

        Args:
            message: the message to send.
            queue: the queue to send to; None lets the producer choose queues in turn.
            timeout_ms: milliseconds for all tries; None means the value of the producer.

        Returns:
            Where the message is stored, and how safely.

        Raises:
            NotReachable: no broker stored the message in time. If the error's `outcome` is UNKNOWN,
                it may be stored nevertheless.
            Refused: a broker refused the message for good, or still refused it at the last try.
                `outcome` is as for NotReachable.
            NotFound: the topic does not exist and no broker creates topics.
            UsageError: the message cannot be sent, or this client is closed or belongs to another
                event loop or process.
        """
        return await self._send_one(message, queue, None, timeout_ms)

    async def send_ordered(
        self, message: Message, key: str, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Send `message` to the queue of `key`, so that messages of one key keep their order.

        Wait for each result before the next send of the same key. The queue of a key may change
        when the queues of the topic change. Tries are repeated as in `send`, always to the same
        queue.

        Args:
            message: the message to send.
            key: messages with the same key go to the same queue; it is stored as property
                `__SHARDINGKEY`.
            timeout_ms: milliseconds for all tries; None means the value of the producer.

        Returns:
            Where the message is stored, and how safely.

        Raises:
            NotReachable, Refused, NotFound, UsageError: as `send`.
        """
        check_text("key", key)
        check(message)
        properties = {**message.properties, names.SHARDING_KEY: key}
        keyed = replace(message, properties=properties)
        return await self._send_one(keyed, None, key, timeout_ms)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Send `message` once, without an answer: the sender does not learn whether it is stored.

        Args:
            message: the message to send.
            queue: the queue to send to; None lets the producer choose queues in turn.

        Raises:
            NotReachable: no route or no connection to a master.
            NotFound: the topic does not exist and no broker creates topics.
            UsageError: the message cannot be sent, or this client cannot be used.
        """
        size = body_bytes(message)
        await self._in_flight.enter(size)
        try:
            outgoing = await self._prepare(message)
            deadline = self._loop_time.begin(self.timeout_ms)
            try:
                queues = await self._publish_routes.queues(outgoing.topic, deadline)
            finally:
                self._loop_time.end()
            target = queue or self._round_robin.select(queues, self.instance.clock.now_ms())
            command = self._command(outgoing, RequestCode.SEND_MESSAGE_V2, target, oneway=True)
            await self.instance.oneway(self._address(target), command)
        finally:
            self._in_flight.leave(size)

    async def request(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> StoredMessage:
        """Send `message` and wait for the reply that a consumer sends with `reply_to`.

        Args:
            message: the message to send.
            queue: the queue to send to; None lets the producer choose queues in turn.
            timeout_ms: milliseconds until the reply; None means the value of the producer.

        Returns:
            The reply. It is pushed, not stored, unless the brokers keep a copy.

        Raises:
            NotReachable: no reply came in time; the request may have been handled.
            Refused, NotFound, UsageError: as `send`.
        """
        timeout_ms = timeout_ms or self.timeout_ms

        async def send(asked: Message) -> SendResult:
            return await self.send(asked, queue=queue, timeout_ms=timeout_ms)

        return await self._requests.ask(message, send, timeout_ms)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Cancel a message with an exact delivery time before it is delivered.

        Args:
            topic: the topic that the message was sent to.
            recall_handle: `SendResult.recall_handle` of the message.

        Returns:
            The client's id of the cancelled message.

        Raises:
            Refused: the broker does not allow recall (16); or it is too late, or the handle is not
                from this broker (604).
            UsageError: `recall_handle` cannot be read.
            NotFound: the topic does not exist.
            NotReachable: the broker is not known or did not answer.
        """
        try:
            handle = parse_handle(recall_handle)
        except PeerError as error:
            raise UsageError(str(error)) from None
        topic = self._namespace.wrap(topic)
        header = RecallHeader(topic, recall_handle, self.group, bname=handle.broker_name)
        command = request(RequestCode.RECALL_MESSAGE, header)
        async with self.instance.routed(topic):
            address = self.instance.routes.address(handle.broker_name, 0)
            if address is None:
                raise NotReachable(f"no address of broker {handle.broker_name} is known")
            answer = checked(await self.instance.call(address, command, self.timeout_ms))
        return decode_header(RecallResponseHeader, answer.ext).msgId

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one request; the broker stores all of them or none.

        The producer writes an id into property `UNIQ_KEY` of each message that has none.

        Args:
            messages: one or more messages of one topic; none may be delayed or go to a retry topic.
            queue: the queue to send to; None lets the producer choose queues in turn.
            timeout_ms: milliseconds for all tries; None means the value of the producer.

        Returns:
            Where the batch is stored. `msg_id` holds the ids of all messages, joined by commas.

        Raises:
            NotReachable, Refused, NotFound: as `send`.
            UsageError: the messages cannot be one batch, or this client cannot be used.
        """
        size = sum(body_bytes(message) for message in messages)
        await self._in_flight.enter(size)
        try:
            for message in messages:
                message.properties.setdefault(names.UNIQ_KEY, self.instance.uniq_ids.next())
            with self._sending(messages, MessageKind.NORMAL) as call:
                outgoing = self._prepare_batch(call.messages)
                code = RequestCode.SEND_BATCH_MESSAGE
                call.result = await self._send(outgoing, code, queue, timeout_ms)
                return call.result
        finally:
            self._in_flight.leave(size)

    async def queues(
        self, topic: str, *, timeout_ms: int | None = None
    ) -> tuple[MessageQueue, ...]:
        """Return the queues of `topic` that accept messages now, in a stable order.

        The question is repeated within the timeout while the topic has no master.

        Args:
            topic: name of the topic.
            timeout_ms: milliseconds for all tries; None means the value of the producer.

        Raises:
            NotReachable: no master of the topic is known in time.
            NotFound: the topic does not exist and no broker creates topics.
            UsageError: `topic` is not text, or this client cannot be used.
        """
        check_text("topic", topic)
        topic = self._namespace.wrap(topic)
        check_topic(topic)
        self.instance.check_usable()
        deadline = self._loop_time.begin(timeout_ms or self.timeout_ms)
        problem: EpochError | None = None
        try:
            for attempt in itertools.count(1):
                began = self.instance.clock.now_ms()
                try:
                    queues = await self._publish_routes.queues(topic, deadline)
                    return self._namespace.unwrap_queues(queues)
                except NotReachable as error:
                    problem = more_telling(problem, error)
                    self.instance.routes.expire(topic, began)
                    if not await self._wait_before_retry(attempt, deadline):
                        raise problem from None
        finally:
            self._loop_time.end()
        raise AssertionError("unreachable")

    async def _wait_before_retry(self, attempt: int, deadline: Deadline) -> bool:
        """Sleep before the next try. Return False if no try is left: no time, or `retries` is 0."""
        pause_ms = delay_ms(attempt, self.instance.rng, first_ms=10, most_ms=AGAIN_MS_MAX)
        if not self.retries or deadline.left_ms() <= pause_ms:
            return False
        await asyncio.sleep(pause_ms / 1_000)
        return True

    async def _prepare(self, message: Message) -> Outgoing:
        """Prepare `message` for sending; a large body is compressed in a thread."""
        uniq_id = self.instance.uniq_ids.next()
        over, codec = self.compress_over_bytes, self._compression
        message = self._namespace.wrap_message(message)
        if body_bytes(message) < max(over, COMPRESS_IN_THREAD_BYTES):
            return prepare(message, uniq_id, compress_over_bytes=over, compression=codec)
        return await asyncio.to_thread(
            prepare, message, uniq_id, compress_over_bytes=over, compression=compressor(self._codec)
        )

    def _prepare_batch(self, messages: Sequence[Message]) -> Outgoing:
        wrapped = [self._namespace.wrap_message(message) for message in messages]
        return prepare_batch(wrapped, self.instance.uniq_ids.next)

    def _address(self, queue: MessageQueue) -> str:
        address = self.instance.routes.master(queue.broker_name)
        if address is None:
            raise NotReachable(f"broker {queue.broker_name} has no master now")
        return address

    async def _send_one(
        self,
        message: Message,
        fixed: MessageQueue | None,
        key: str | None,
        timeout_ms: int | None,
    ) -> SendResult:
        size = body_bytes(message)
        if not self._in_flight.enter_at_once(size):
            await self._in_flight.enter(size)
        if self._batching is not None and (fixed, key, timeout_ms) == (None, None, None):
            waits = self._batching.linger_ms > 0 or not self._in_flight.is_single
            if waits and self._batching.accepts(message):
                return await self._send_in_batch(self._batching, message, size)
        deadline = self._loop_time.begin(timeout_ms or self.timeout_ms)
        try:
            if not self._hooks:
                outgoing = await self._prepare(message)
                return await self._send_by(deadline, outgoing, send_code(message), fixed, key)
            with self._sending((message,), kind_of(message, key)) as call:
                outgoing = await self._prepare(call.messages[0])
                code = send_code(message)
                call.result = await self._send_by(deadline, outgoing, code, fixed, key)
                return call.result
        finally:
            self._loop_time.end()
            self._in_flight.done(size, deadline.took_ms(), deadline.timeout_ms)

    async def _send_in_batch(self, batching: Batching, message: Message, size: int) -> SendResult:
        clock = self.instance.clock
        began = clock.now_ms()
        try:
            check(message)
            if not self._hooks:
                return await batching.send(message)
            with self._sending((message,), MessageKind.NORMAL) as call:
                call.result = await batching.send(call.messages[0])
                return call.result
        finally:
            self._in_flight.done(size, clock.now_ms() - began, self.timeout_ms)

    async def _send_together(self, messages: Sequence[Message]) -> SendResult:
        if len(messages) == 1:
            code, outgoing = RequestCode.SEND_MESSAGE_V2, await self._prepare(messages[0])
            return await self._send(outgoing, code, None, None)
        outgoing = self._prepare_batch(messages)
        return await self._send(outgoing, RequestCode.SEND_BATCH_MESSAGE, None, None)

    def _sending(
        self, messages: Sequence[Message], kind: MessageKind
    ) -> AbstractContextManager[SendCall]:
        for message in messages:
            check_kind("properties", message.properties, (dict,), "a dict")
        group = self._namespace.unwrap(self.group)
        return self._hooks.sending(group, messages, kind, self.instance.routes)

    async def _send(
        self,
        outgoing: Outgoing,
        code: int,
        fixed: MessageQueue | None,
        timeout_ms: int | None,
    ) -> SendResult:
        deadline = self._loop_time.begin(timeout_ms or self.timeout_ms)
        try:
            return await self._send_by(deadline, outgoing, code, fixed, None)
        finally:
            self._loop_time.end()

    async def _send_by(
        self,
        deadline: Deadline,
        outgoing: Outgoing,
        code: int,
        fixed: MessageQueue | None,
        key: str | None,
    ) -> SendResult:
        """Try until a broker stores the message. The queue of `key` is chosen once, by the first
        route.
        """
        clock = self.instance.clock
        avoid: str | None = None
        problem: EpochError | None = None
        outcome = Outcome.NOT_DONE
        refused = 0
        for attempt in itertools.count(1):
            began = clock.now_ms()
            try:
                queues = await self._publish_routes.queues(outgoing.topic, deadline)
                if key is not None and fixed is None:
                    fixed = by_key(queues, key)
                queue = fixed or self._round_robin.select(queues, began, avoid=avoid)
                avoid = queue.broker_name
                left_ms = max(1, deadline.left_ms())
                result = await self._try(outgoing, code, queue, left_ms)
                if result.status is SendStatus.SEND_OK or not self.retry_when_not_store_ok:
                    return result
                problem = NotReachable(f"stored as {result.status.value} only")
                outcome = Outcome.UNKNOWN
                refused += 1
            except NotReachable as error:
                if self.instance.is_closed:
                    raise NotReachable(
                        f"the client was closed while message {outgoing.uniq_id} was sent: it may"
                        " be stored or not",
                        Outcome.UNKNOWN,
                    ) from error
                outcome = worse(outcome, error)
                problem = more_telling(problem, error)
                self.instance.routes.expire(outgoing.topic, began)
            except Refused as error:
                outcome = worse(outcome, error)
                verdict = judge(error.code)
                if verdict is SendVerdict.RAISE:
                    raise Refused(error.code, error.remark, outcome) from None
                problem = error
                if verdict is SendVerdict.ELSEWHERE:
                    self.instance.routes.expire(outgoing.topic, began)
                else:
                    refused += 1
            if refused > self.retries or not await self._wait_before_retry(attempt, deadline):
                raise explained(problem, deadline, outcome)
        raise AssertionError("unreachable")

    async def _try(
        self, outgoing: Outgoing, code: int, queue: MessageQueue, timeout_ms: int
    ) -> SendResult:
        clock = self.instance.clock
        command = self._command(outgoing, code, queue)
        began = clock.now_ms()
        address = self._address(queue)
        awaited = self._silent_masters.begin(address, outgoing.topic, began)
        try:
            answer = await self.instance.call(address, command, timeout_ms)
        except NotReachable:
            self._fault.failed(queue.broker_name, clock.now_ms())
            raise
        finally:
            awaited.ended(clock.now_ms())
        now = clock.now_ms()
        self._fault.answered(queue.broker_name, now - began, now)
        return self._namespace.unwrap_result(result_of(outgoing, queue, answer))

    def _command(
        self, outgoing: Outgoing, code: int, queue: MessageQueue, *, oneway: bool = False
    ) -> Command:
        born_wall_ms = self.instance.clock.wall_ms()
        return send_command(outgoing, code, queue, self.group, born_wall_ms, oneway=oneway)

    def _heartbeat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self.instance.client_id, producer_data_set=[ProducerData(self.group)]
        )
