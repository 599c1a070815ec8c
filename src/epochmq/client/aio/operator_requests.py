"""What brokers ask a consumer on behalf of an operator: reset, status, running
info, and "consume this message now"."""

import asyncio
import logging

from epochmq.client.aio.group_member import GroupMember, Owned, restore_topic
from epochmq.client.aio.listening import CallListener, ConsumeResult, call_listener
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.queue import MessageQueue
from epochmq.wire.bodies import runtime_bodies as bodies
from epochmq.wire.bodies.body import decode_answer, encode_body, mq_map_decode, mq_map_encode
from epochmq.wire.bodies.offset_bodies import ConsumerStatusBody, ResetOffsetBody
from epochmq.wire.codes import OUR_VERSION, RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session

log = logging.getLogger(__name__)


class OperatorRequests:
    """Answers for one member of a group."""

    def __init__(self, member: GroupMember, listener: CallListener) -> None:
        self._member = member
        self._listener = listener
        self._started_wall_ms = member.instance.clock.wall_ms()

    def install(self) -> None:
        """Handle these requests from now on."""
        handlers = self._member.instance.handlers
        handlers[RequestCode.RESET_CONSUMER_CLIENT_OFFSET] = self._reset_offsets
        handlers[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = self._status
        handlers[RequestCode.GET_CONSUMER_RUNNING_INFO] = self._running_info
        handlers[RequestCode.CONSUME_MESSAGE_DIRECTLY] = self._consume_directly

    def _reset_offsets(self, command: Command, session: Session) -> Reply | None:
        table = mq_map_decode(decode_answer(ResetOffsetBody, command.body).offset_table)
        self._member.instance.spawn(self._reset(table), "reset offsets")
        return Reply()

    async def _reset(self, table: list[tuple[MessageQueue, int]]) -> None:
        for queue, offset in table:
            log.info("an operator resets %s to %d", queue, offset)
            await self._member.restart_at(queue, offset)

    def _status(self, command: Command, session: Session) -> Reply | None:
        table = mq_map_encode(self._member.offsets.snapshot().items())
        return Reply(body=encode_body(ConsumerStatusBody(message_queue_table=table)))

    def _running_info(self, command: Command, session: Session) -> Reply | None:
        member = self._member
        info = bodies.ConsumerRunningInfo(
            properties={
                bodies.PROP_CLIENT_VERSION: f"V{OUR_VERSION}",
                bodies.PROP_CONSUME_TYPE: "CONSUME_PASSIVELY",
                bodies.PROP_CONSUME_ORDERLY: "true" if member.options.ordered else "false",
                bodies.PROP_CONSUMER_START_TIMESTAMP: str(self._started_wall_ms),
                bodies.PROP_NAMESERVER_ADDR: ";".join(member.instance.name_servers.addresses),
            },
            subscription_set=list(member.subscriptions.values()),
            mq_table=mq_map_encode((q, _queue_info(owned)) for q, owned in member.owned.items()),
        )
        return Reply(body=encode_body(info))

    def _consume_directly(self, command: Command, session: Session) -> Reply | None:
        message = record.decode(bytes(command.body))
        command.body = b""
        self._member.instance.spawn(self._consume(message, command, session), "consume directly")
        return None

    async def _consume(self, message: StoredMessage, command: Command, session: Session) -> None:
        restore_topic(message, self._member.group)
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await call_listener(self._listener, [message])
        body = bodies.ConsumeDirectlyResult(
            order=self._member.options.ordered,
            auto_commit=True,
            consume_result=(
                bodies.CR_SUCCESS if result is ConsumeResult.SUCCESS else bodies.CR_LATER
            ),
            spent_time_mills=int((loop.time() - began) * 1_000),
        )
        session.answer(command, Reply(ResponseCode.SUCCESS, body=encode_body(body)))


def _queue_info(owned: Owned) -> bodies.ProcessQueueInfo:
    figures = owned.window.statistics()
    return bodies.ProcessQueueInfo(
        commit_offset=owned.window.commit_offset or 0,
        cached_msg_count=figures["cachedMsgCount"],
        cached_msg_size_in_mib=figures["cachedMsgSizeInMiB"],
        cached_msg_min_offset=figures["cachedMsgMinOffset"],
        locked=owned.window.locked_at_ms is not None,
        droped=owned.window.dropped,
    )
