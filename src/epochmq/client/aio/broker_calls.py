"""Requests of a consumer to brokers: pull, offsets, members, queue locks, send back."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.core.consumer_state import CorruptMessage, PullStatus, sound_front, status_of
from epochmq.client.core.retrying import retry_of, send_request
from epochmq.model import batch
from epochmq.model.group import SubscriptionData
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.group_bodies import ConsumerList, LockBatchRequest, LockBatchResponse
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers import offset_headers as offsets
from epochmq.wire.headers import pull_headers
from epochmq.wire.headers.group_headers import GetConsumerListHeader
from epochmq.wire.headers.send_headers import SendBackHeader
from epochmq.wire.pulled_messages import decode_messages

log = logging.getLogger(__name__)

HOLD_MS = 15_000
PULL_TIMEOUT_MS = 30_000
LOCK_TIMEOUT_MS = 1_000
SEND_BACK_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull. `next_offset` is the offset of the next pull, whatever the status."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int


def min_offset_of(queue: MessageQueue) -> Command:
    """Return the request for the first offset of `queue`; every broker answers it at once."""
    header = offsets.GetMinOffsetHeader(topic=queue.topic, queueId=max(0, queue.queue_id))
    return request(RequestCode.GET_MIN_OFFSET, header)


class BrokerCalls:
    """Requests of one consumer group."""

    def __init__(self, instance: Instance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count: int,
        data: SubscriptionData,
        *,
        hold_ms: int = 0,
        broker_id: int = 0,
        commit: int | None = None,
    ) -> Pulled:
        """Pull up to `count` messages from queue offset `offset`.

        Messages before the first damaged message of the answer are returned.

        Args:
            queue: the queue to read.
            offset: queue offset of the first message wanted.
            count: how many messages at most.
            data: the subscription with its filter.
            hold_ms: milliseconds that the broker waits when there is no message; 0 means not at
                all.
            broker_id: the replica to ask; 0 is the master. Another one is asked if it has no
                address.
            commit: queue offset to commit with the request; only masters commit it.

        Raises:
            CorruptMessage: the first message is damaged.
            Refused: the answer has an error code.
            NotReachable: no address is known, or no answer came within 30 s.
        """
        address = self._address(queue, broker_id)
        replica = self._instance.routes.replica_id(queue.broker_name, address)
        commit = commit if replica == 0 else None
        flags = pull_headers.SUBSCRIPTION | (pull_headers.SUSPEND if hold_ms else 0)
        header = pull_headers.PullHeader(
            consumerGroup=self._group,
            topic=queue.topic,
            queueId=queue.queue_id,
            queueOffset=offset,
            maxMsgNums=count,
            sysFlag=flags | (pull_headers.COMMIT_OFFSET if commit is not None else 0),
            commitOffset=commit or 0,
            suspendTimeoutMillis=hold_ms,
            subVersion=data.sub_version,
            subscription=data.sub_string,
            expressionType=data.expression_type,
            bname=queue.broker_name,
        )
        command = request(RequestCode.PULL_MESSAGE, header)
        with self._instance.held_requests.at(address, partial(min_offset_of, queue)):
            answer = await self._instance.call(address, command, PULL_TIMEOUT_MS)
        return _pulled(answer, offset, queue.broker_name, replica)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of the group in `queue`, or None."""
        header = offsets.QueryConsumerOffsetHeader(
            consumerGroup=self._group,
            topic=queue.topic,
            queueId=queue.queue_id,
            setZeroIfNotFound=False,
            bname=queue.broker_name,
        )
        answer = await self._ask(queue, request(RequestCode.QUERY_CONSUMER_OFFSET, header))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return decode_header(offsets.OffsetResponseHeader, checked(answer).ext).offset

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit `offset` of `queue` and wait for the answer."""
        header = offsets.UpdateConsumerOffsetHeader(
            consumerGroup=self._group,
            topic=queue.topic,
            queueId=queue.queue_id,
            commitOffset=offset,
            bname=queue.broker_name,
        )
        checked(await self._ask(queue, request(RequestCode.UPDATE_CONSUMER_OFFSET, header)))

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset of `queue` that can be read."""
        return await self._offset(queue, min_offset_of(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset behind the last message of `queue`."""
        header = offsets.GetMaxOffsetHeader(topic=queue.topic, queueId=queue.queue_id)
        return await self._offset(queue, request(RequestCode.GET_MAX_OFFSET, header))

    async def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """Return the offset of the first message stored at `wall_ms` (Unix
        milliseconds) or later.
        """
        header = offsets.SearchOffsetHeader(
            topic=queue.topic, queueId=queue.queue_id, timestamp=wall_ms
        )
        return await self._offset(queue, request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))

    async def members(self, topic: str) -> list[str]:
        """Return the ids of all members of the group, from the first broker of `topic` that
        answers.

        Raises:
            NotReachable, Refused: the problem of the last broker.
        """
        problem: Exception = NotReachable(f"no broker of topic {topic} is known")
        names = dict.fromkeys(q.broker_name for q in self._instance.routes.subscribe(topic))
        for name in names:
            address = self._instance.routes.address(name, 0)
            if address is None:
                continue
            try:
                header = GetConsumerListHeader(consumerGroup=self._group)
                command = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
                answer = await self._instance.call(address, command)
                return list(decode_body(ConsumerList, checked(answer).body).consumer_id_list)
            except (NotReachable, Refused) as error:
                problem = error
        raise problem

    async def lock(self, broker_name: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock `queues` of one broker. Return the queues that this member holds now."""
        command = request(RequestCode.LOCK_BATCH_MQ, None, self._lock_body(queues))
        address = self._master(broker_name)
        answer = await self._instance.call(address, command, LOCK_TIMEOUT_MS)
        return set(decode_body(LockBatchResponse, checked(answer).body).lock_ok_mq_set)

    async def unlock(self, broker_name: str, queues: Iterable[MessageQueue]) -> None:
        """Unlock `queues` of one broker, without waiting for an answer."""
        command = request(RequestCode.UNLOCK_BATCH_MQ, None, self._lock_body(queues), True)
        await self._instance.oneway(self._master(broker_name), command)

    async def send_back(
        self, message: StoredMessage, broker_name: str, delay_level: int, max_reconsume: int
    ) -> None:
        """Ask the broker to deliver `message` again later, or to make it a dead letter.

        If the broker refuses (for a message inside a batch, or one that was deleted), the consumer
        sends a copy of the message to the retry topic.

        Args:
            message: the message that failed.
            broker_name: the broker group that holds it.
            delay_level: the delay level; 0 lets the broker choose, -1 means dead letter.
            max_reconsume: retries before the message becomes a dead letter.

        Raises:
            NotReachable: the broker has no master or does not answer.
            Refused: the broker refused the copy as well.
        """
        header = SendBackHeader(
            offset=message.offset,
            group=self._group,
            delayLevel=delay_level,
            originMsgId=message.msg_id,
            originTopic=message.topic,
            unitMode=False,
            maxReconsumeTimes=max_reconsume,
        )
        command = request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        address = self._master(broker_name)
        try:
            checked(await self._instance.call(address, command, SEND_BACK_TIMEOUT_MS))
        except Refused as error:
            log.info(
                "%(msg_id)s is sent to the retry topic as a copy: %(error)s",
                {"msg_id": message.msg_id, "error": error},
            )
            outgoing = retry_of(message, self._group, delay_level, max_reconsume)
            command = send_request(outgoing, self._instance.clock.wall_ms())
            checked(await self._instance.call(address, command, SEND_BACK_TIMEOUT_MS))

    def _lock_body(self, queues: Iterable[MessageQueue]) -> bytes:
        return encode_body(
            LockBatchRequest(
                consumer_group=self._group,
                client_id=self._instance.client_id,
                mq_set=sorted(queues),
            )
        )

    async def _offset(self, queue: MessageQueue, command: Command) -> int:
        answer = checked(await self._ask(queue, command))
        return decode_header(offsets.OffsetResponseHeader, answer.ext).offset

    async def _ask(self, queue: MessageQueue, command: Command) -> Command:
        return await self._instance.call(self._address(queue, 0), command)

    def _address(self, queue: MessageQueue, broker_id: int) -> str:
        address = self._instance.routes.address(queue.broker_name, broker_id)
        if address is None:
            raise NotReachable(f"no address of broker {queue.broker_name} is known")
        return address

    def _master(self, broker_name: str) -> str:
        address = self._instance.routes.master(broker_name)
        if address is None:
            raise NotReachable(f"broker {broker_name} has no master now")
        return address


def _pulled(answer: Command, asked: int, broker_name: str, broker_id: int) -> Pulled:
    """Decode the answer to a pull. `asked` may be an offset inside a record that holds many
    messages.
    """
    status = status_of(answer.code)
    if status is None:
        raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
    header = decode_header(pull_headers.PullResponseHeader, answer.ext)
    found = decode_messages(answer.body) if status is PullStatus.FOUND else []
    sound = sound_front(found)
    next_offset = header.nextBeginOffset
    if len(sound) < len(found):
        damaged = found[len(sound)]
        if not sound:
            raise CorruptMessage(damaged, broker_name, broker_id)
        next_offset = max(damaged.queue_offset, asked)
    return Pulled(
        status,
        batch.unwrap_all(sound, asked),
        next_offset,
        header.minOffset,
        header.maxOffset,
        header.suggestWhichBrokerId,
    )
