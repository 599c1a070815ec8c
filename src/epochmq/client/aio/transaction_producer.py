"""The transactional producer: a message becomes visible when its local transaction commits."""

import asyncio
import inspect
import itertools
import logging
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError
from epochmq.client.aio.hooks import ClientHook, MessageKind, TransactionEnd
from epochmq.client.aio.producer import AGAIN_MS_MAX, SEND_TIMEOUT_MS, Producer
from epochmq.client.core.outgoing import Outgoing, body_bytes, check_callable
from epochmq.client.core.retrying import delay_ms
from epochmq.client.core.send_policy import SendStatus
from epochmq.client.core.send_result import SendResult
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
"""Interval at which the producer looks for new masters, to send them a heartbeat."""
CHECKS_MAX = 2_000
"""Transaction checks that run at a time. Further checks are dropped; the broker repeats them."""
REMEMBERED_MAX = 10_000
"""Half messages whose position is remembered, to recognise copies with the same id."""
_AGAIN = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
"""Codes after which ending the transaction is tried again, maybe at another master."""

log = logging.getLogger(__name__)


class TransactionState(Enum):
    """The state of a local transaction; UNKNOWN means that the broker asks again later."""

    COMMIT = COMMIT
    ROLLBACK = ROLLBACK
    UNKNOWN = UNKNOWN


class TransactionListener(Protocol):
    """The application's part of a transaction; both methods may be coroutine functions.

    A broker may ask `check` at any time about any message of the group, also about one that another
    process sent. So `check` must read the result from where `execute_local` stored it, not from
    memory.
    """

    def execute_local(
        self, message: Message, arg: Any
    ) -> Awaitable[TransactionState] | TransactionState:
        """Run the local transaction, after the broker stored the half message.

        Args:
            message: the message, with its id in property `UNIQ_KEY`.
            arg: the argument of `send_in_transaction`.

        Returns:
            COMMIT delivers the message, ROLLBACK drops it, UNKNOWN lets the broker ask `check`.
        """
        ...

    def check(self, message: StoredMessage) -> Awaitable[TransactionState] | TransactionState:
        """Return the state of the local transaction of `message`.

        After an error, or with UNKNOWN, the broker asks again later.
        """
        ...


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The result of `TransactionProducer.send_in_transaction`.

    Attributes:
        send: where the half message is stored.
        state: the state that `execute_local` returned, or ROLLBACK if it did not run.
        ended: whether the broker confirmed commit or rollback. If not, it will call `check`.
    """

    send: SendResult
    state: TransactionState
    ended: bool


class TransactionProducer(Producer):
    """Sends messages in transactions: `async with TransactionProducer(namesrv, group, listener) as
    p`.

    The group names the application. Brokers ask any living producer of the group about transactions
    that are open, also those of a producer that died. A broker knows a producer after the first
    send to a topic of that broker; for `topics`, from the beginning.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        group: name of the producer group.
        listener: runs and checks local transactions.
        topics: topics whose brokers may ask this producer before its first send.
        timeout_ms: milliseconds for one send with all its tries, and for ending a transaction.
        namespace: added to names of topics and groups, as RocketMQ's clients do (`NAMESPACE%NAME`);
            results and messages show the names without it. None means no namespace.
        tls: settings of TLS; None means the setting of the process, by default no TLS.
        credentials: the user who signs the requests; None means the user of the process, if any.
        hooks: see each send and each end of a transaction.

    Raises:
        UsageError: an argument has a wrong type, or `listener` lacks a method.
        Refused: `group` is not a valid group name (code 1).
    """

    def __init__(
        self,
        namesrv: str,
        group: str,
        listener: TransactionListener,
        *,
        topics: Sequence[str] = (),
        timeout_ms: int = SEND_TIMEOUT_MS,
        namespace: str | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        hooks: Iterable[ClientHook] = (),
    ) -> None:
        for name in ("execute_local", "check"):
            function = getattr(listener, name, None)
            check_callable(f"listener.{name}", function, "; see TransactionListener")
        super().__init__(
            namesrv,
            group,
            timeout_ms=timeout_ms,
            namespace=namespace,
            tls=tls,
            credentials=credentials,
            hooks=hooks,
        )
        self.listener = listener
        self._topics = tuple(topics)
        self._checking = 0
        self._halves: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self.instance.handlers[RequestCode.CHECK_TRANSACTION_STATE] = self._on_check

    async def _prepare_start(self) -> None:
        for topic in self._topics:
            await self.queues(topic)
        self.instance.spawn(self._follow_masters(), "masters that may ask")

    async def _follow_masters(self) -> None:
        """Send heartbeats to new masters, also when the producer sends no messages."""
        told = set(self.instance.routes.masters())
        while True:
            await asyncio.sleep(FOLLOW_MS / 1_000)
            for topic in self._publish_routes.topics():
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
        """Store `message` as a half message, run `execute_local`, then commit or roll back.

        If the half message is stored with another status than SEND_OK, it is rolled back and
        `execute_local` does not run.

        Args:
            message: the message; it must not be delayed (`delay_level`, `delay_ms`,
                `deliver_at_ms`), because brokers deliver it at the time of the commit.
            arg: passed to `execute_local`.
            queue: the queue to send to; None lets the producer choose.
            timeout_ms: milliseconds for the send, and again for the end of the transaction; None
                means the value of the producer.

        Returns:
            Where the half message is stored, the state, and whether the broker confirmed it.

        Raises:
            NotReachable, Refused, NotFound, UsageError: as `send`; `execute_local` did not run.
            Exception: what `execute_local` raised. The transaction stays open, and the broker will
                ask.
        """
        size = body_bytes(message)
        await self._in_flight.enter(size)
        try:
            with self._sending((message,), MessageKind.HALF) as call:
                outgoing = await self._half(call.messages[0])
                code = RequestCode.SEND_MESSAGE_V2
                sent = call.result = await self._send(outgoing, code, queue, timeout_ms)
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
        if ended and self._hooks:
            self._hooks.end_transaction(
                TransactionEnd(
                    self._namespace.unwrap(self.group),
                    message.topic,
                    sent.msg_id,
                    message.tags,
                    message.keys,
                    sent.transaction_id or sent.msg_id,
                    state is TransactionState.COMMIT,
                    False,
                    self.instance.routes.master(sent.queue.broker_name),
                )
            )
        return TransactionResult(sent, state, ended)

    async def _half(self, message: Message) -> Outgoing:
        if message.delay_level or message.delay_ms or message.deliver_at_ms:
            text = "a transactional message cannot be delayed"
            raise UsageError(f"{text}; leave delay_level, delay_ms and deliver_at_ms out")
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
        outgoing = await self._prepare(half)
        outgoing.sys_flag |= TX_PREPARED
        return outgoing

    def _remember(self, sent: SendResult) -> None:
        self._halves[sent.msg_id] = (sent.queue.broker_name, sent.queue_offset)
        if len(self._halves) > REMEMBERED_MAX:
            self._halves.popitem(last=False)

    # Commit and rollback ---------------------------------------------------------------------

    async def _end(self, sent: SendResult, state: TransactionState, timeout_ms: int) -> bool:
        """Send commit or rollback to the master of the group until it answers or the time is over.

        Returns:
            Whether the broker confirmed.
        """
        clock = self.instance.clock
        deadline = clock.now_ms() + timeout_ms
        topic = self._namespace.wrap(sent.queue.topic)
        header = EndTransactionHeader(
            producerGroup=self.group,
            tranStateTableOffset=sent.queue_offset,
            commitLogOffset=parse_offset_id(sent.offset_msg_id)[2],
            commitOrRollback=state.value,
            msgId=sent.msg_id,
            transactionId=sent.transaction_id or sent.msg_id,
            topic=topic,
            bname=sent.queue.broker_name,
        )
        for attempt in itertools.count(1):
            problem: Exception
            try:
                await self.instance.ensure_route(topic)
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
            self.instance.routes.expire(topic)
            pause_ms = delay_ms(attempt, self.instance.rng, first_ms=10, most_ms=AGAIN_MS_MAX)
            if clock.now_ms() + pause_ms >= deadline:
                break
            await asyncio.sleep(pause_ms / 1_000)
        log.warning(
            "the broker did not accept the end of transaction %(msg_id)s and will check it:"
            " %(problem)s",
            {"msg_id": sent.msg_id, "problem": problem},
        )
        return False

    # Transaction checks ----------------------------------------------------------------------

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
                else await _told(self.listener.check(self._namespace.unwrap_message(message)))
            )
        except (EpochError, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.warning(
                "the check of transaction %(msg_id)s failed, the broker repeats it: %(error)r",
                {"msg_id": message.msg_id, "error": error},
            )
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
        if self._hooks:
            self._hooks.end_transaction(
                TransactionEnd(
                    self._namespace.unwrap(end.producerGroup),
                    self._namespace.unwrap(message.properties.get(names.REAL_TOPIC, message.topic)),
                    end.msgId or message.msg_id,
                    message.tags,
                    message.keys,
                    end.transactionId or message.msg_id,
                    state is TransactionState.COMMIT,
                    True,
                    session.peer,
                )
            )

    def _is_orphan(self, header: CheckTransactionStateHeader, message: StoredMessage) -> bool:
        """Whether this half message is a copy from a try whose answer was lost.

        Both copies have the same id, so `check` could not distinguish them, and the message would
        be delivered twice. A half message that an acting master handed over to another broker
        (RIP-32) is not a copy; only an acting master of EpochMQ marks it so (`HALF_OF`).
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
