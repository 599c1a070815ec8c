"""Request and reply over topics: a producer sends a message and waits for the answer of a consumer.

A broker pushes the reply to the connection of the producer that the request names, so the producer
keeps a connection to each broker that may get the reply. Properties and codes are RocketMQ\'s, so
either side may be a client of RocketMQ.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from epochmq.base.errors import EpochError, NotReachable, Outcome, PeerError, UsageError
from epochmq.client.aio.instance import Instance
from epochmq.client.core.namespaces import Namespace
from epochmq.client.core.send_command import REPLY
from epochmq.client.core.send_result import SendResult
from epochmq.model import property_names as names
from epochmq.model.host import BadAddress, parse_addr
from epochmq.model.message import Message, StoredMessage
from epochmq.model.names import REPLY_TOPIC_SUFFIX
from epochmq.model.properties import decode
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import PushReplyHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)


def reply_to(request: StoredMessage, body: bytes) -> Message:
    """Return the reply to a request, to be sent by any producer.

    Args:
        request: the message that a consumer got, sent with `Producer.request`.
        body: the content of the reply.

    Raises:
        UsageError: the message asks for no reply.
    """
    given = request.properties
    wanted = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.CLUSTER)
    missing = [name for name in wanted if not given.get(name)]
    if missing:
        raise UsageError(f"message {request.msg_id} asks for no reply: it has no {missing[0]}")
    properties = {
        names.MSG_TYPE: REPLY,
        names.CORRELATION_ID: given[names.CORRELATION_ID],
        names.REPLY_TO_CLIENT: given[names.REPLY_TO_CLIENT],
    }
    if names.TTL in given:
        properties[names.TTL] = given[names.TTL]
    return Message(given[names.CLUSTER] + REPLY_TOPIC_SUFFIX, body, properties=properties)


class RequestReply:
    """The requests of one producer that wait for replies."""

    def __init__(self, instance: Instance, namespace: Namespace) -> None:
        self._instance = instance
        self._namespace = namespace
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}
        self._greeted: set[str] = set()
        """Clusters to whose brokers this producer has a connection for replies."""
        instance.handlers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._arrived

    async def ask(
        self,
        message: Message,
        send: Callable[[Message], Awaitable[SendResult]],
        timeout_ms: int,
    ) -> StoredMessage:
        """Send a request and return its reply; raises `NotReachable` after `timeout_ms`."""
        correlation = self._instance.uniq_ids.next()
        asked = {
            **message.properties,
            names.CORRELATION_ID: correlation,
            names.REPLY_TO_CLIENT: self._instance.client_id,
            names.TTL: str(timeout_ms),
        }
        reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = reply
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._greet(self._namespace.wrap(message.topic))
                await send(replace(message, properties=asked))
                return await reply
        except TimeoutError:
            raise NotReachable(
                f"no reply to the request in topic {message.topic} within {timeout_ms} ms",
                Outcome.UNKNOWN,
            ) from None
        finally:
            del self._waiting[correlation]

    async def _greet(self, topic: str) -> None:
        """Connect to every broker that a reply may be sent to."""
        await self._instance.ensure_route(topic, create=True)
        route = self._instance.routes.route(topic)
        clusters = {broker.cluster for broker in route.broker_datas} if route is not None else set()
        if clusters <= self._greeted:
            return
        for cluster in clusters:
            try:
                await self._instance.ensure_route(cluster + REPLY_TOPIC_SUFFIX)
            except EpochError as error:
                log.info(
                    "brokers of %(cluster)s that may get replies are not known: %(error)s",
                    {"cluster": cluster, "error": error},
                )
        await self._instance.greet_all()
        self._greeted |= clusters

    def _arrived(self, command: Command, session: Session) -> Reply:
        """Give a pushed reply to its request; a late one is answered like any other."""
        try:
            header = decode_header(PushReplyHeader, command.ext)
            message = _message(header, bytes(command.body))
        except (PeerError, BadAddress) as error:
            return Reply(ResponseCode.SYSTEM_ERROR, f"the reply cannot be read: {error}")
        waiting = self._waiting.get(message.properties.get(names.CORRELATION_ID, ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        return Reply()


def _message(header: PushReplyHeader, body: bytes) -> StoredMessage:
    return StoredMessage(
        topic=header.topic,
        queue_id=header.queueId,
        queue_offset=0,
        offset=0,
        size=0,
        body=body,
        flag=header.flag,
        sys_flag=header.sysFlag,
        born_wall_ms=header.bornTimestamp,
        born_host=parse_addr(header.bornHost),
        store_wall_ms=header.storeTimestamp,
        store_host=parse_addr(header.storeHost),
        reconsume_times=header.reconsumeTimes or 0,
        prepared_offset=0,
        properties=decode(header.properties or ""),
        body_crc=0,
    )
