"""Sends messages that become visible only when a local transaction says so."""

import asyncio
import inspect
import itertools
import logging
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self

from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError
from epochmq.client.aio.producer import AGAIN_MS_MAX, SEND_TIMEOUT_MS, Producer, SendResult
from epochmq.client.core.outgoing import Outgoing, body_bytes, check_callable
from epochmq.client.core.retrying import delay_ms
from epochmq.client.core.send_policy import SendStatus
from epochmq.model import property_names as names
from epochmq.model import record
from epochmq.model.message import Message, StoredMessage
from epochmq.model.message_id import parse_offset_id
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransactionStateHeader,
    EndTransactionHeader,
)
from epochmq.wire.session import Session

FOLLOW_MS = 3_000
"""How often it is looked whether another master is to be told that this producer can be asked."""
CHECKS_MAX = 2_000
"""Questions of brokers that are being answered; what comes beyond is asked again by itself."""
REMEMBERED_MAX = 10_000
"""Half messages whose place is remembered, so that others with the same id are told apart."""
_AGAIN = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
"""Another try, maybe at another master, may end the transaction."""

log = logging.getLogger(__name__)


class TransactionState(Enum):
    """What a local transaction came to; UNKNOWN: the broker is to ask later."""

    COMMIT = COMMIT
    ROLLBACK = ROLLBACK
    UNKNOWN = UNKNOWN


class TransactionListener(Protocol):
    """The application's side; both may be coroutines.

    `check` may be asked at any time, about any message of the group, also one that another process
    sent: it must look where `execute_local` wrote, and not in memory.
    """

    def execute_local(
        self, message: Message, arg: Any
    ) -> Awaitable[TransactionState] | TransactionState: ...

    def check(self, message: StoredMessage) -> Awaitable[TransactionState] | TransactionState: ...


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """`ended` says whether the broker confirmed the end; if not it will ask `check`."""

    send: SendResult
    state: TransactionState
    ended: bool


class TransactionProducer(Producer):
    """Use as `async with TransactionProducer("127.0.0.1:9876", "group", listener) as producer`.

    The group names the application: brokers ask any living producer of it about transactions that
    were left open, as by one that died. They know it from its first send to a topic of theirs on;
    those of `topics` know it at once.
    """

    def __init__(
        self,
        namesrv: str,
        group: str,
        listener: TransactionListener,
        *,
        topics: Sequence[str] = (),
        timeout_ms: int = SEND_TIMEOUT_MS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        for name in ("execute_local", "check"):
            function = getattr(listener, name, None)
            check_callable(f"listener.{name}", function, "; see TransactionListener")
        super().__init__(namesrv, group, timeout_ms=timeout_ms, tls=tls)
        self.listener = listener
        self._topics = tuple(topics)
        self._checking = 0
        self._halves: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self.instance.handlers[RequestCode.CHECK_TRANSACTION_STATE] = self._on_check

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for topic in self._topics:
            await self.queues(topic)
        self.instance.spawn(self._follow_masters(), "masters that may ask")
        return self

    async def _follow_masters(self) -> None:
        """Let a master that was elected meanwhile know us, also when we have nothing to send."""
        told = set(self.instance.routes.masters())
        while True:
            await asyncio.sleep(FOLLOW_MS / 1_000)
            for topic in list(self._greeted_topics):
                with suppress(NotReachable, NotFound, Refused):
                    await self.instance.refresh(topic)
            masters = set(self.instance.routes.masters())
            if masters - told:
                await self.instance.greet_all()
            told = masters

    async def send_in_transaction(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionResult:
        """Have a broker hold `message` unseen, run `execute_local`, commit or roll back.

        Errors are those of `send`, and then nothing was begun. What `execute_local` raises is
        raised here, and the transaction stays open: the broker will ask. A half message that is
        not held as safely as the broker was told to is rolled back, and nothing is run.
        """
        size = body_bytes(message)
        await self._in_flight.enter(size)
        try:
            outgoing = self._half(message)
            sent = await self._send(outgoing, RequestCode.SEND_MESSAGE_V2, queue, timeout_ms)
        finally:
            self._in_flight.leave(size)
        self._remember(sent)
        if sent.status is SendStatus.SEND_OK:
            message.properties.setdefault(names.UNIQ_KEY, sent.msg_id)
            state = await _told(self.listener.execute_local(message, arg))
        else:
            state = TransactionState.ROLLBACK
        ended = state is not TransactionState.UNKNOWN and await self._end(
            sent, state, timeout_ms or self.timeout_ms
        )
        return TransactionResult(sent, state, ended)

    def _half(self, message: Message) -> Outgoing:
        if message.delay_level:
            raise UsageError("a transactional message cannot be delayed; leave delay_level out")
        properties = {
            **message.properties,
            names.TRAN_MSG: "true",
            names.PGROUP: self.group,
        }
        half = Message(
            message.topic,
            message.body,
            message.tags,
            message.keys,
            properties,
            message.flag,
            wait_stored=message.wait_stored,
        )
        outgoing = self._prepare(half)
        outgoing.sys_flag |= TX_PREPARED
        return outgoing

    def _remember(self, sent: SendResult) -> None:
        self._halves[sent.msg_id] = (sent.queue.broker_name, sent.queue_offset)
        if len(self._halves) > REMEMBERED_MAX:
            self._halves.popitem(last=False)

    # Ending ----------------------------------------------------------------------------------

    async def _end(self, sent: SendResult, state: TransactionState, timeout_ms: int) -> bool:
        """Tell the group's master, also one that was elected meanwhile; whether it took it."""
        clock = self.instance.clock
        deadline = clock.now_ms() + timeout_ms
        header = EndTransactionHeader(
            producerGroup=self.group,
            tranStateTableOffset=sent.queue_offset,
            commitLogOffset=parse_offset_id(sent.offset_msg_id)[2],
            commitOrRollback=state.value,
            msgId=sent.msg_id,
            transactionId=sent.transaction_id or sent.msg_id,
            topic=sent.queue.topic,
            bname=sent.queue.broker_name,
        )
        for attempt in itertools.count(1):
            problem: Exception
            try:
                await self.instance.ensure_route(sent.queue.topic)
                command = request(RequestCode.END_TRANSACTION, header)
                left_ms = max(1, deadline - clock.now_ms())
                answer = await self.instance.call(self._address(sent.queue), command, left_ms)
                if answer.code == ResponseCode.SUCCESS:
                    return True
                problem = Refused(answer.code, answer.remark or f"code {answer.code}")
                if answer.code not in _AGAIN:
                    break
            except NotReachable as error:
                problem = error
            self.instance.routes.expire(sent.queue.topic)
            pause_ms = delay_ms(attempt, self.instance.rng, first_ms=10, most_ms=AGAIN_MS_MAX)
            if clock.now_ms() + pause_ms >= deadline:
                break
            await asyncio.sleep(pause_ms / 1_000)
        log.warning(
            "the end of transaction %s was not taken, the broker will ask: %s", sent.msg_id, problem
        )
        return False

    # Being asked -----------------------------------------------------------------------------

    def _on_check(self, command: Command, session: Session) -> Reply | None:
        if self._checking >= CHECKS_MAX:
            return None
        header = decode_header(CheckTransactionStateHeader, command.ext)
        message = record.decode(bytes(command.body))
        self._checking += 1
        self.instance.spawn(self._check(header, message, session), "transaction check")
        return None

    async def _check(
        self, header: CheckTransactionStateHeader, message: StoredMessage, session: Session
    ) -> None:
        try:
            state = (
                TransactionState.ROLLBACK
                if self._is_orphan(header, message)
                else await _told(self.listener.check(message))
            )
        except (EpochError, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.warning("check of %s failed, the broker asks again: %r", message.msg_id, error)
            return
        finally:
            self._checking -= 1
        if state is TransactionState.UNKNOWN or session.closed:
            return
        end = EndTransactionHeader(
            producerGroup=message.properties.get(names.PGROUP, self.group),
            tranStateTableOffset=header.tranStateTableOffset,
            commitLogOffset=header.commitLogOffset,
            commitOrRollback=state.value,
            fromTransactionCheck=True,
            msgId=header.msgId or message.msg_id,
            transactionId=header.transactionId,
            topic=header.topic,
            bname=header.bname,
        )
        session.oneway(request(RequestCode.END_TRANSACTION, end))

    def _is_orphan(self, header: CheckTransactionStateHeader, message: StoredMessage) -> bool:
        """Whether this half was stored by a try whose answer was lost: another one counts.

        Both have the application's id, so `check` could not tell them apart, and the message
        would be delivered twice. One that lies at another broker may be ours all the same, handed
        over there by a slave that stood in (RIP-32): only a stand-in of our release says so.
        """
        ours = self._halves.get(message.msg_id)
        home, _, origin = message.properties.get(names.HALF_OF, "").rpartition("@")
        if not home:
            home = header.bname or (ours[0] if ours is not None else "")
            origin = message.properties.get(names.TRAN_PREPARED_QUEUE_OFFSET, "")
        if ours is None or home != ours[0] or not origin.isdecimal():
            return False
        return int(origin) != ours[1]


async def _told(answer: Awaitable[TransactionState] | TransactionState) -> TransactionState:
    state = await answer if inspect.isawaitable(answer) else answer
    if not isinstance(state, TransactionState):
        raise UsageError(f"a listener answers a TransactionState, not {state!r}")
    return state
