"""Requests of a POP consumer to brokers: assignment, pop, acknowledgement, invisible time."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.broker_calls import min_offset_of
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.core import pop_state
from epochmq.client.core.consumer_state import CorruptMessage, StartPoint, is_sound
from epochmq.client.core.pop_state import (
    POLL_MS,
    POP_TIMEOUT_MS,
    PopHandle,
    PopStatus,
    batches,
    status_of,
)
from epochmq.model.group import SubscriptionData
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.pop_bodies import (
    BatchAckBody,
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers import pop_headers as headers
from epochmq.wire.pulled_messages import decode_messages

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Popped:
    """The answer to a pop. Each message holds its receipt handle (POP_CK)."""

    status: PopStatus
    messages: list[StoredMessage]


class PopCalls:
    """Requests of one consumer group."""

    def __init__(self, instance: Instance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._no_batches: set[str] = set()
        """Addresses of brokers that do not know batch acknowledgements."""

    async def assignment(self, topic: str, strategy: str) -> list[MessageQueueAssignment] | None:
        """Return the assignment of this client in `topic`, or None if the broker cannot tell now.

        The first broker of the topic that answers is asked.

        Raises:
            Refused: the broker makes no assignments (3), or refuses for another reason.
            NotReachable: no broker answers.
        """
        body = encode_body(
            QueryAssignmentRequest(
                topic=topic,
                consumer_group=self._group,
                client_id=self._instance.client_id,
                strategy_name=strategy,
            )
        )
        problem: Exception = NotReachable(f"no broker of topic {topic} is known")
        names = dict.fromkeys(q.broker_name for q in self._instance.routes.subscribe(topic))
        for name in names:
            try:
                command = request(RequestCode.QUERY_ASSIGNMENT, None, body)
                answer = checked(await self._instance.call(self._address(name), command))
            except (NotReachable, Refused) as error:
                problem = error
                continue
            told = decode_body(QueryAssignmentResponse, answer.body).message_queue_assignments
            return told if isinstance(told, list) else None
        raise problem

    async def pop(
        self,
        queue: MessageQueue,
        count: int,
        data: SubscriptionData,
        *,
        invisible_ms: int,
        start: StartPoint,
        ordered: bool = False,
        attempt_id: str | None = None,
        poll_ms: int = POLL_MS,
    ) -> Popped:
        """Pop up to `count` messages of `queue`; queue id -1 means all queues of its broker.

        Args:
            queue: the queue.
            count: how many messages at most.
            data: the subscription with its filter.
            invisible_ms: milliseconds for which other members do not get the messages.
            start: where a new group begins.
            ordered: whether the pop is ordered.
            attempt_id: names an ordered pop, so that it can be repeated after a lost answer.
            poll_ms: milliseconds that the broker waits when it has no message.

        Raises:
            Refused: the answer has an error code.
            NotReachable: no address is known, or no answer in time.
        """
        header = headers.PopHeader(
            consumerGroup=self._group,
            topic=queue.topic,
            queueId=queue.queue_id,
            maxMsgNums=count,
            invisibleTime=invisible_ms,
            pollTime=poll_ms,
            bornTime=self._instance.clock.wall_ms(),
            initMode=headers.INIT_MIN if start is StartPoint.FIRST else headers.INIT_MAX,
            expType=data.expression_type,
            exp=data.sub_string,
            order=ordered,
            attemptId=attempt_id,
            bname=queue.broker_name,
        )
        command = request(RequestCode.POP_MESSAGE, header)
        timeout_ms = poll_ms + POP_TIMEOUT_MS - POLL_MS
        address = self._address(queue.broker_name)
        with self._instance.held_requests.at(address, partial(min_offset_of, queue)):
            answer = await self._instance.call(address, command, timeout_ms)
        status = status_of(answer.code)
        if status is None:
            raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
        if status is not PopStatus.FOUND:
            return Popped(status, [])
        messages = decode_messages(answer.body)
        pop_state.complete(
            messages,
            decode_header(headers.PopResponseHeader, answer.ext),
            topic=queue.topic,
            group=self._group,
            broker_name=queue.broker_name,
        )
        return Popped(status, [message for message in messages if self._is_sound(message)])

    def _is_sound(self, message: StoredMessage) -> bool:
        """Whether the body matches its checksum; a damaged message is logged.

        A damaged message is neither delivered nor acknowledged. It becomes visible again, maybe at
        another replica, and finally becomes a dead letter.
        """
        sound = is_sound(message)
        if not sound:
            log.error(
                "cannot decode messages popped by %(group)s: %(error)s",
                {"group": self._group, "error": CorruptMessage(message, "", 0)},
            )
        return sound

    async def ack(self, topic: str, handle: PopHandle) -> None:
        """Acknowledge a message.

        Raises:
            Refused: the message does not exist any more (208).
        """
        header = headers.AckHeader(
            consumerGroup=self._group,
            topic=handle.real_topic(topic, self._group),
            queueId=handle.queue_id,
            extraInfo=str(handle),
            offset=handle.offset,
            bname=handle.broker_name,
        )
        await self._ask(handle.broker_name, request(RequestCode.ACK_MESSAGE, header))

    async def ack_all(self, topic: str, broker_name: str, handles: Sequence[PopHandle]) -> None:
        """Acknowledge messages of one broker, in one request if the broker supports it.

        Raises:
            NotReachable: it is not certain that all are acknowledged; the call may be repeated.
        """
        alone: Sequence[PopHandle] = handles
        address = self._address(broker_name)
        if len(handles) > 1 and address not in self._no_batches:
            body, alone = batches(broker_name, self._group, topic, handles)
            if body.acks and not await self._ack_batch(address, body):
                alone = handles
        done = await asyncio.gather(
            *(self.ack(topic, handle) for handle in alone), return_exceptions=True
        )
        for result in done:
            if isinstance(result, Refused):
                log.info(
                    "an ack of %(topic)s was refused: %(result)s",
                    {"topic": topic, "result": result},
                )
            elif isinstance(result, BaseException):
                raise result

    async def _ack_batch(self, address: str, body: BatchAckBody) -> bool:
        """Send a batch acknowledgement. Return False if the broker does not support it."""
        command = request(RequestCode.BATCH_ACK_MESSAGE, None, encode_body(body))
        answer = await self._instance.call(address, command)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._no_batches.add(address)
            return False
        checked(answer)
        return True

    async def change_invisible(self, topic: str, handle: PopHandle, invisible_ms: int) -> PopHandle:
        """Hide a message for `invisible_ms` from now on. Return its new handle."""
        header = headers.ChangeInvisibleTimeHeader(
            consumerGroup=self._group,
            topic=handle.real_topic(topic, self._group),
            queueId=handle.queue_id,
            extraInfo=str(handle),
            offset=handle.offset,
            invisibleTime=invisible_ms,
            bname=handle.broker_name,
        )
        command = request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        answer = await self._ask(handle.broker_name, command)
        told = decode_header(headers.ChangeInvisibleTimeResponseHeader, answer.ext)
        return handle.renewed(told.popTime, told.invisibleTime, told.reviveQid)

    async def _ask(self, broker_name: str, command: Command) -> Command:
        return checked(await self._instance.call(self._address(broker_name), command))

    def _address(self, broker_name: str) -> str:
        address = self._instance.routes.address(broker_name, 0)
        if address is None:
            raise NotReachable(f"no address of broker {broker_name} is known")
        return address
