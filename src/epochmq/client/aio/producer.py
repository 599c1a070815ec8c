"""Sends messages: waits for the broker's word, tries again elsewhere, keeps the order of a key."""

import asyncio
import itertools
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from epochmq.base.errors import NotFound, NotReachable, PeerError, Refused, UsageError
from epochmq.client.aio.closing import Closing
from epochmq.client.aio.instance import NEW_TOPIC_QUEUES, Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.core.awaited import Awaited
from epochmq.client.core.backoff import delay_ms
from epochmq.client.core.fault import FaultTable
from epochmq.client.core.outgoing import COMPRESS_OVER_BYTES, Outgoing, prepare
from epochmq.client.core.queue_selector import RoundRobin, by_key
from epochmq.client.core.send_policy import SendStatus, Verdict, judge, status_of
from epochmq.model import batch as batches
from epochmq.model import property_names as names
from epochmq.model.message import Message
from epochmq.model.names import DEFAULT_TOPIC, RETRY, check_group
from epochmq.model.properties import encode
from epochmq.model.queue import MessageQueue
from epochmq.model.recall_handle import parse as parse_handle
from epochmq.wire.bodies.client import HeartbeatData, ProducerData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.base import decode_header
from epochmq.wire.headers.send import (
    RecallHeader,
    RecallResponseHeader,
    SendHeaderV2,
    SendResponseHeader,
)

SEND_TIMEOUT_MS = 3_000
RETRIES = 2
SILENCE_MS = 250
"""A master that answers nothing for so long while sends wait is looked up again."""
AGAIN_MS_MAX = 100
"""The longest pause between two tries: a failover takes a few hundred milliseconds."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message is held. `msg_id` is the client's id, `offset_msg_id` the broker's."""

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    """Of a message for an exact time: takes it back, while brokers allow that
    (recallMessageEnable)."""


class Producer(Closing):
    """Use as `async with Producer("127.0.0.1:9876", "group") as producer: ...`.

    A send is tried again within `timeout_ms`: as long as no master can be reached, as in a
    failover, and up to `retries` times when one refused. With `retries=0` it is tried once. A
    message may be stored twice when an answer was lost, always with the same `UNIQ_KEY`.
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
        retry_when_not_store_ok: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.retries = retries
        self.timeout_ms = timeout_ms
        self.compress_over_bytes = compress_over_bytes
        self.retry_when_not_store_ok = retry_when_not_store_ok
        self.instance = Instance(namesrv, tls=tls)
        self.instance.heartbeat = self._heartbeat
        self._fault = FaultTable()
        self._round_robin = RoundRobin(self.instance.rng, self._fault if avoid_faulty else None)
        self._greeted_topics: set[str] = set()
        self._awaited: dict[str, Awaited] = {}

    async def __aenter__(self) -> Self:
        await self.instance.start()
        self.instance.spawn(self._watch_silence(), "silent masters")
        return self

    async def close(self) -> None:
        """Leave the producer group and close all connections."""
        await self.instance.close(producer=self.group)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send and wait until a broker holds the message.

        Raises `NotReachable` when no broker answered in time, `Refused` when one said no for good.
        """
        outgoing = self._prepare(message)
        return await self._send(outgoing, RequestCode.SEND_MESSAGE_V2, queue, timeout_ms)

    async def send_ordered(
        self, message: Message, key: str, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Send to the queue of `key`: messages of one key keep their order.

        Wait for each result before the next send of the same key.
        """
        message.properties.setdefault(names.SHARDING_KEY, key)
        queues = await self.queues(message.topic)
        return await self.send(message, queue=by_key(queues, key), timeout_ms=timeout_ms)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Send without waiting for an answer: fast, and nobody tells when it was lost."""
        outgoing = self._prepare(message)
        target = await self._target(message.topic, queue, None)
        command = self._command(outgoing, RequestCode.SEND_MESSAGE_V2, target, oneway=True)
        await self.instance.peers.oneway(self._address(target), command)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Take a message for an exact time back before it is due, by what its send answered.

        Its client's id. `Refused` when brokers do not allow it (16), or when it is too late, or the
        handle is none of theirs (604); `UsageError` for what is no handle.
        """
        try:
            handle = parse_handle(recall_handle)
        except PeerError as error:
            raise UsageError(str(error)) from None
        await self.instance.ensure_route(topic)
        address = self.instance.routes.address(handle.broker_name, 0)
        if address is None:
            raise NotReachable(f"no address of broker {handle.broker_name} is known")
        header = RecallHeader(topic, recall_handle, self.group, bname=handle.broker_name)
        command = request(RequestCode.RECALL_MESSAGE, header)
        answer = checked(await self.instance.call(address, command, self.timeout_ms))
        return decode_header(RecallResponseHeader, answer.ext).msgId

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send `messages` of one topic in one request: all are held, or none.

        Their ids are in the `UNIQ_KEY` property of each message and joined in the result.
        """
        outgoing = self._prepare_batch(messages)
        return await self._send(outgoing, RequestCode.SEND_BATCH_MESSAGE, queue, timeout_ms)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that `topic` may be sent to now, in a stable order."""
        await self.instance.ensure_route(topic, create=True)
        if topic not in self._greeted_topics:
            self._greeted_topics.add(topic)
            await self.instance.greet_all()
        queues = self.instance.routes.publish(topic)
        if not queues:
            self.instance.routes.expire(topic)
            raise NotReachable(f"topic {topic} has no writable queue with a living master now")
        return queues

    def _prepare(self, message: Message) -> Outgoing:
        uniq_id = self.instance.uniq_ids.next()
        return prepare(message, uniq_id, compress_over_bytes=self.compress_over_bytes)

    def _prepare_batch(self, messages: Sequence[Message]) -> Outgoing:
        if not messages or len({message.topic for message in messages}) != 1:
            raise UsageError("a batch holds one or more messages of one topic")
        if messages[0].topic.startswith(RETRY) or any(m.is_delayed for m in messages):
            raise UsageError(
                "messages of a batch can be neither delayed nor retried; send them singly"
            )
        for message in messages:
            message.properties.setdefault(names.UNIQ_KEY, self.instance.uniq_ids.next())
        whole = Message(messages[0].topic, batches.encode(list(messages)))
        ids = ",".join(message.properties[names.UNIQ_KEY] for message in messages)
        outgoing = prepare(whole, self.instance.uniq_ids.next(), compress_over_bytes=1 << 30)
        outgoing.uniq_id = ids
        # Brokers add the batch's own properties to every message in it: an id among them would
        # take the place of each message's.
        outgoing.properties = encode(whole.all_properties())
        return outgoing

    async def _target(
        self, topic: str, fixed: MessageQueue | None, avoid: str | None
    ) -> MessageQueue:
        """The queue to send to; the route, and with it its broker's address, is known then."""
        queues = await self.queues(topic)
        if fixed is not None:
            return fixed
        return self._round_robin.select(queues, self.instance.clock.now_ms(), avoid=avoid)

    def _address(self, queue: MessageQueue) -> str:
        address = self.instance.routes.master(queue.broker_name)
        if address is None:
            raise NotReachable(f"broker {queue.broker_name} has no master now")
        return address

    async def _send(
        self,
        outgoing: Outgoing,
        code: int,
        fixed: MessageQueue | None,
        timeout_ms: int | None,
    ) -> SendResult:
        clock = self.instance.clock
        deadline = clock.now_ms() + (timeout_ms or self.timeout_ms)
        avoid: str | None = None
        refused = 0
        for attempt in itertools.count(1):
            try:
                queue = await self._target(outgoing.topic, fixed, avoid)
                avoid = queue.broker_name
                left_ms = max(1, deadline - clock.now_ms())
                result = await self._try(outgoing, code, queue, left_ms)
                if result.status is SendStatus.SEND_OK or not self.retry_when_not_store_ok:
                    return result
                problem: Exception = NotReachable(f"stored as {result.status.value} only")
                refused += 1
            except NotReachable as error:
                problem = error
                self.instance.routes.expire(outgoing.topic)
            except Refused as error:
                verdict = judge(error.code)
                if verdict is Verdict.RAISE:
                    raise
                problem = error
                if verdict is Verdict.ELSEWHERE:
                    self.instance.routes.expire(outgoing.topic)
                else:
                    refused += 1
            pause_ms = delay_ms(attempt, self.instance.rng, first_ms=10, most_ms=AGAIN_MS_MAX)
            if refused > self.retries or not self.retries or clock.now_ms() + pause_ms >= deadline:
                raise problem
            await asyncio.sleep(pause_ms / 1_000)
        raise AssertionError("unreachable")

    async def _try(
        self, outgoing: Outgoing, code: int, queue: MessageQueue, timeout_ms: int
    ) -> SendResult:
        clock = self.instance.clock
        command = self._command(outgoing, code, queue)
        began = clock.now_ms()
        address = self._address(queue)
        awaited = self._awaited.get(address) or self._awaited.setdefault(address, Awaited())
        awaited.sent(outgoing.topic, began)
        try:
            answer = await self.instance.call(address, command, timeout_ms)
        except NotReachable:
            self._fault.failed(queue.broker_name, clock.now_ms())
            raise
        finally:
            awaited.ended(clock.now_ms())
        now = clock.now_ms()
        self._fault.answered(queue.broker_name, now - began, now)
        return _result(outgoing, queue, answer)

    async def _watch_silence(self) -> None:
        """Give up on a master that is silent once another is in the route (a paused process).

        Its connection stays open, so without this every send would wait for its whole timeout.
        """
        while True:
            await asyncio.sleep(SILENCE_MS / 1_000)
            now = self.instance.clock.now_ms()
            for address, awaited in list(self._awaited.items()):
                if awaited.is_silent(now, SILENCE_MS):
                    await self._ask_anew(address, awaited.topic)

    async def _ask_anew(self, address: str, topic: str) -> None:
        with suppress(NotReachable, NotFound, Refused):
            await self.instance.refresh(topic)
        if address not in self.instance.routes.masters():
            self._awaited.pop(address, None)
            self.instance.peers.drop(address, "another broker is master now")

    def _command(
        self, outgoing: Outgoing, code: int, queue: MessageQueue, *, oneway: bool = False
    ) -> Command:
        header = SendHeaderV2(
            producerGroup=self.group,
            topic=outgoing.topic,
            defaultTopic=DEFAULT_TOPIC,
            defaultTopicQueueNums=NEW_TOPIC_QUEUES,
            queueId=queue.queue_id,
            sysFlag=outgoing.sys_flag,
            bornTimestamp=self.instance.clock.wall_ms(),
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsumeTimes=outgoing.reconsume_times,
            maxReconsumeTimes=outgoing.max_reconsume_times,
            unitMode=False,
            batch=code == RequestCode.SEND_BATCH_MESSAGE,
            brokerName=queue.broker_name,
        )
        return request(code, header, outgoing.body, oneway)

    def _heartbeat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self.instance.client_id, producer_data_set=[ProducerData(self.group)]
        )


def _result(outgoing: Outgoing, queue: MessageQueue, answer: Command) -> SendResult:
    if judge(answer.code) is not Verdict.STORED:
        raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
    header = decode_header(SendResponseHeader, answer.ext)
    return SendResult(
        status_of(answer.code),
        outgoing.uniq_id,
        header.msgId,
        MessageQueue(outgoing.topic, queue.broker_name, header.queueId),
        header.queueOffset,
        header.transactionId,
        header.recallHandle,
    )
