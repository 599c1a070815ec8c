"""Listener calls of a push consumer: many at a time (`Concurrent`), or in order (`Ordered`)."""

import asyncio
import logging

from msgspec import UNSET

from epochmq.base.errors import EpochError
from epochmq.client.aio.group_member import GroupMember, Owned, restore_topic
from epochmq.client.aio.listening import CallListener, ConsumeResult, call_listener
from epochmq.model import property_names as names
from epochmq.model import record
from epochmq.model.group import is_tried_out
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.runtime.listener_stacks import listener_stacks
from epochmq.wire.bodies import runtime_bodies as bodies
from epochmq.wire.bodies.body import decode_answer, encode_body, mq_map_decode, mq_map_encode
from epochmq.wire.bodies.offset_bodies import ConsumerStatusBody, ResetOffsetBody
from epochmq.wire.codes import OUR_VERSION, RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import GetConsumerRunningInfoHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

LOCAL_RETRY_MS = 5_000
SUSPEND_MS = 1_000
DEAD_LETTER = -1
BY_BROKER = 0
"""Delay levels of a send back: `DEAD_LETTER` makes a dead letter at once, `BY_BROKER` lets the
broker choose the delay by the number of retries."""


class Concurrent:
    """Runs up to `concurrency` listener calls at the same time, in no order."""

    def __init__(self, member: GroupMember, listener: CallListener, concurrency: int) -> None:
        self._member = member
        self._listener = listener
        self._concurrency = concurrency
        self._batches: asyncio.Queue[tuple[Owned, list[StoredMessage]]] = asyncio.Queue()

    def start(self) -> None:
        """Start the workers."""
        for number in range(self._concurrency):
            self._member.instance.spawn(self._work(), f"listener {number}")

    def took(self, owned: Owned) -> None:
        """Do nothing: there is no work per queue."""

    def arrived(self, owned: Owned) -> None:
        """Cut the messages that wait into batches for the workers."""
        while batch := owned.window.next_messages(self._member.options.batch_size):
            self._batches.put_nowait((owned, batch))

    async def drain(self) -> None:
        """Wait until every batch is handled."""
        await self._batches.join()

    async def _work(self) -> None:
        while True:
            owned, batch = await self._batches.get()
            try:
                if not owned.window.dropped and not self._member.is_stopping:
                    await self._consume(owned, batch)
            finally:
                self._batches.task_done()

    async def _consume(self, owned: Owned, batch: list[StoredMessage]) -> None:
        result = await call_listener(self._listener, batch)
        failed = [] if result is ConsumeResult.SUCCESS else await self._give_back(owned, batch)
        if not failed:
            owned.window.done(batch)
        else:
            owned.window.done([message for message in batch if message not in failed])
            owned.window.put_back(failed)
            loop = asyncio.get_running_loop()
            loop.call_later(LOCAL_RETRY_MS / 1_000, self.arrived, owned)
        if not owned.window.dropped:
            self._member.note_progress(owned)

    async def _give_back(self, owned: Owned, batch: list[StoredMessage]) -> list[StoredMessage]:
        """Send each message of `batch` back to its broker. Return those for which that failed."""
        member = self._member
        if member.is_stopping:
            return batch  # uncommitted, so the next owner of the queue gets them
        if not member.is_clustering:
            log.warning(
                "%(messages)d messages failed; broadcasting has no retry", {"messages": len(batch)}
            )
            return []
        failed = []
        for message in batch:
            try:
                await member.calls.send_back(
                    message, owned.queue.broker_name, BY_BROKER, member.options.max_reconsume_times
                )
            except EpochError as error:
                log.warning(
                    "cannot send back %(msg_id)s: %(error)s",
                    {"msg_id": message.msg_id, "error": error},
                )
                message.reconsume_times += 1
                failed.append(message)
        if failed:
            await member.instance.refresh_after_error(owned.queue.topic)
        return failed


class Ordered:
    """Makes one listener call at a time for each queue. A failure blocks the queue, and skips
    nothing.
    """

    def __init__(self, member: GroupMember, listener: CallListener) -> None:
        self._member = member
        self._listener = listener
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Do nothing: each queue has its own worker."""

    def took(self, owned: Owned) -> None:
        """Start the worker of this queue."""
        task = self._member.instance.spawn(self._work(owned), f"ordered {owned.queue}")
        owned.tasks.append(task)

    def arrived(self, owned: Owned) -> None:
        """Wake the worker of this queue."""
        owned.arrived.set()

    async def drain(self) -> None:
        """Wait until no listener call is running."""
        await self._idle.wait()

    async def _work(self, owned: Owned) -> None:
        while not owned.window.dropped and not self._member.is_stopping:
            if not owned.window.has_waiting:
                owned.arrived.clear()
                await owned.arrived.wait()
                continue
            if self._lost_lock(owned):
                await asyncio.sleep(SUSPEND_MS / 1_000)
                continue
            await self._consume(owned)

    def _lost_lock(self, owned: Owned) -> bool:
        now = self._member.instance.clock.now_ms()
        return self._member.is_clustering and not owned.window.is_locked(now)

    async def _consume(self, owned: Owned) -> None:
        batch = owned.window.next_messages(self._member.options.batch_size)
        self._busy += 1
        self._idle.clear()
        try:
            result = await call_listener(self._listener, batch)
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()
        if result is ConsumeResult.SUCCESS:
            owned.window.done(batch)
            if not owned.window.dropped:
                self._member.note_progress(owned)
            return
        if owned.window.dropped:
            return  # the next owner of the queue gets the messages
        await self._hold(owned, batch)

    async def _hold(self, owned: Owned, batch: list[StoredMessage]) -> None:
        given_up = [message for message in batch if await self._gave_up(owned, message)]
        owned.window.done(given_up)
        if given_up and not owned.window.dropped:
            self._member.note_progress(owned)
        again = [message for message in batch if message not in given_up]
        for message in again:
            message.reconsume_times += 1
        owned.window.put_back(again)
        if again:
            await asyncio.sleep(SUSPEND_MS / 1_000)

    async def _gave_up(self, owned: Owned, message: StoredMessage) -> bool:
        """Make a dead letter of a message that failed too often. Return False if it may be tried
        again.
        """
        limit = self._member.options.max_reconsume_times
        if not is_tried_out(message.reconsume_times, limit):
            return False
        message.properties.setdefault(names.RETRY_TOPIC, message.topic)
        try:
            await self._member.calls.send_back(message, owned.queue.broker_name, DEAD_LETTER, limit)
        except EpochError as error:
            log.warning(
                "cannot write the dead letter of %(msg_id)s: %(error)s",
                {"msg_id": message.msg_id, "error": error},
            )
            await self._member.instance.refresh_after_error(owned.queue.topic)
            return False
        return True


# Operator requests ---------------------------------------------------------------------------
# Requests that brokers forward to a consumer for an operator: reset of offsets, status, running
# info, and "consume this message now".


class OperatorRequests:
    """Answers operator requests for one member of a group."""

    def __init__(self, member: GroupMember, listener: CallListener) -> None:
        self._member = member
        self._listener = listener
        self._started_wall_ms = member.instance.clock.wall_ms()

    def install(self) -> None:
        """Register the handlers of these requests."""
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
            log.info(
                "an operator resets %(queue)s to %(offset)d", {"queue": queue, "offset": offset}
            )
            await self._member.restart_at(queue, offset)

    def _status(self, command: Command, session: Session) -> Reply | None:
        table = mq_map_encode(self._member.offsets.snapshot().items())
        return Reply(body=encode_body(ConsumerStatusBody(message_queue_table=table)))

    def _running_info(self, command: Command, session: Session) -> Reply | None:
        member = self._member
        asked = decode_header(GetConsumerRunningInfoHeader, command.ext)
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
            jstack=listener_stacks() if asked.jstackEnable else UNSET,
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
