"""RocketMQ's message trace: a hook that stores what happens to each message in a topic.

`epochmq message trace`, `mqadmin queryMsgTraceById` and RocketMQ's dashboard read it. The topic
must exist: a broker has RMQ_SYS_TRACE_TOPIC if its option traceTopicEnable is true.
"""

import asyncio
import logging
from collections import deque
from typing import NamedTuple

from epochmq.base.errors import EpochError, NotFound, UsageError
from epochmq.client.aio.hooks import ClientHook, ConsumeCall, MessageKind, SendCall, TransactionEnd
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.producer import Producer
from epochmq.client.core import trace_text
from epochmq.client.core.outgoing import check_text
from epochmq.client.core.trace_text import TracedMessage
from epochmq.model import property_names as names
from epochmq.model.message import Message
from epochmq.model.names import TRACE_TOPIC, check_topic

log = logging.getLogger(__name__)

GROUP = "_INNER_TRACE_PRODUCER"
WAITING_MAX = 10_000
"""Contexts that wait to be sent; further ones are dropped and counted."""
BATCH_MAX = 100
BODY_CHARS_MAX = 60_000
KEYS_CHARS_MAX = 8_000
PAUSE_S = 0.1
CLOSE_S = 3.0
TIMEOUT_MS = 5_000


class _Context(NamedTuple):
    text: str
    keys: tuple[str, ...]


class _Begun(NamedTuple):
    wall_ms: int
    now_ms: int
    request_id: str = ""


class MessageTrace(ClientHook):
    """Traces sends, listener calls and ends of transactions of the client that it is given to.

    Traces are sent in the background, in batches. What cannot be sent is dropped: a trace never
    delays or fails a message. `close` of the client waits up to 3 s for the last ones.

    Args:
        topic: the topic of the traces.

    Raises:
        UsageError: `topic` is not text.
        Refused: `topic` is not a valid name (1).
    """

    def __init__(self, topic: str = TRACE_TOPIC) -> None:
        check_text("topic", topic)
        check_topic(topic)
        self.topic = topic
        self.dropped: int = 0
        """Contexts that were not stored."""
        self._waiting: deque[_Context] = deque()
        self._arrived = asyncio.Event()
        self._instance: Instance | None = None
        self._producer: Producer | None = None
        self._task: asyncio.Task[None] | None = None
        self._problem = ""
        self._is_closing = False

    async def open(self, instance: Instance) -> None:
        """Connect with the addresses, TLS settings and user of the client."""
        if self._instance is not None:
            raise UsageError("this MessageTrace belongs to another client; make one for each")
        self._instance = instance
        servers = ";".join(instance.name_servers.addresses)
        self._producer = Producer(
            servers,
            GROUP,
            timeout_ms=TIMEOUT_MS,
            tls=instance.tls,
            credentials=instance.credentials,
        )
        await self._producer.__aenter__()
        self._task = asyncio.create_task(self._send_again_and_again())

    async def close(self) -> None:
        """Send what waits, and close the connections."""
        assert self._producer is not None
        assert self._task is not None
        self._is_closing = True
        self._arrived.set()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._task
        except TimeoutError:
            self._note(len(self._waiting), "the client was closed")
        await self._producer.close()

    # What happened ---------------------------------------------------------------------------

    def begin_send(self, call: SendCall) -> None:
        """Note when the send began."""
        call.notes[self] = self._begun()

    def end_send(self, call: SendCall) -> None:
        """Trace the send of each message."""
        begun = call.notes.get(self)
        result = call.result
        if not isinstance(begun, _Begun) or call.topic == self.topic:
            return
        if result is not None and not result.is_traced:
            return
        ids = call.msg_ids or [each.properties.get(names.UNIQ_KEY, "") for each in call.messages]
        cost_ms = self._now() - begun.now_ms
        for message, msg_id in zip(call.messages, ids, strict=False):
            if not msg_id:
                continue  # it never got an id: nothing can be found
            traced = TracedMessage(
                message.topic, msg_id, message.tags, message.keys, len(message.body)
            )
            text = trace_text.pub_text(
                traced,
                wall_ms=begun.wall_ms,
                region=result.region_id if result is not None else None,
                group=call.group,
                store_host=call.address or "",
                cost_ms=cost_ms,
                kind=call.kind,
                offset_msg_id=result.offset_msg_id if result is not None else None,
                is_stored=result is not None,
            )
            self._add(text, traced)

    def begin_consume(self, call: ConsumeCall) -> None:
        """Trace the begin of the listener call."""
        assert self._instance is not None
        begun = self._begun()._replace(request_id=self._instance.uniq_ids.next())
        call.notes[self] = begun
        for message in _traced_messages(call):
            text = trace_text.before_text(
                message,
                wall_ms=begun.wall_ms,
                region=call.messages[0].properties.get(names.MSG_REGION),
                group=call.group,
                request_id=begun.request_id,
            )
            self._add(text, message)

    def end_consume(self, call: ConsumeCall) -> None:
        """Trace the end of the listener call; its time is shared by its messages."""
        begun = call.notes.get(self)
        if not isinstance(begun, _Begun):
            return
        cost_ms = (self._now() - begun.now_ms) // max(1, len(call.messages))
        code = trace_text.CODE_DONE
        if not call.is_done:
            is_raised = call.error is not None
            code = trace_text.CODE_RAISED if is_raised else trace_text.CODE_FAILED
        for message in _traced_messages(call):
            text = trace_text.after_text(
                message,
                wall_ms=begun.wall_ms,
                group=call.group,
                request_id=begun.request_id,
                cost_ms=cost_ms,
                is_done=call.is_done,
                code=code,
            )
            self._add(text, message)

    def end_transaction(self, end: TransactionEnd) -> None:
        """Trace the end of a transaction."""
        message = TracedMessage(end.topic, end.msg_id, end.tags, end.keys)
        text = trace_text.end_transaction_text(
            message,
            wall_ms=self._begun().wall_ms,
            group=end.group,
            store_host=end.address or "",
            kind=MessageKind.COMMITTED,
            transaction_id=end.transaction_id,
            state="COMMIT_MESSAGE" if end.is_committed else "ROLLBACK_MESSAGE",
            is_answer_to_check=end.is_answer_to_check,
        )
        self._add(text, message)

    def _begun(self) -> _Begun:
        assert self._instance is not None
        return _Begun(self._instance.clock.wall_ms(), self._now())

    def _now(self) -> int:
        assert self._instance is not None
        return self._instance.clock.now_ms()

    # Sending ---------------------------------------------------------------------------------

    def _add(self, text: str, message: TracedMessage) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._note(1, "too many wait")
            return
        self._waiting.append(_Context(text, (message.msg_id, *message.keys)))
        self._arrived.set()

    async def _send_again_and_again(self) -> None:
        while not self._is_closing:
            await self._arrived.wait()
            self._arrived.clear()
            if not self._is_closing:
                await asyncio.sleep(PAUSE_S)  # more arrive meanwhile
            while self._waiting:
                await self._send_batch()

    async def _send_batch(self) -> None:
        assert self._producer is not None
        texts, keys = self._next_batch()
        message = Message(self.topic, "".join(texts).encode(), keys=tuple(keys))
        try:
            await self._producer.send(message)
        except NotFound as error:
            self._note(len(texts), f"{error}; see the option traceTopicEnable of brokers")
        except EpochError as error:
            self._note(len(texts), str(error))
        except asyncio.CancelledError:
            self._note(len(texts), "the client was closed")
            raise

    def _next_batch(self) -> tuple[list[str], list[str]]:
        texts: list[str] = []
        keys: dict[str, None] = {}
        chars = key_chars = 0
        while self._waiting and len(texts) < BATCH_MAX:
            context = self._waiting[0]
            chars += len(context.text)
            key_chars += sum(len(key) + 1 for key in context.keys)
            if texts and (chars > BODY_CHARS_MAX or key_chars > KEYS_CHARS_MAX):
                break
            self._waiting.popleft()
            texts.append(context.text)
            # One message may have more keys than a record can hold; its id comes first.
            keys.update(dict.fromkeys(each for each in context.keys if each))
        return texts, _bounded(list(keys))

    def _note(self, count: int, problem: str) -> None:
        """Count what is dropped, and log a problem when it is a new one."""
        self.dropped += count
        if problem != self._problem:
            self._problem = problem
            log.warning("message traces are dropped: %(problem)s", {"problem": problem})


def _bounded(keys: list[str]) -> list[str]:
    """Return the first keys that a message can hold."""
    kept: list[str] = []
    chars = 0
    for key in keys:
        chars += len(key) + 1
        if chars > 2 * KEYS_CHARS_MAX:
            break
        kept.append(key)
    return kept


def _traced_messages(call: ConsumeCall) -> list[TracedMessage]:
    """Return the messages whose broker allows a trace."""
    return [
        TracedMessage(
            each.topic, each.msg_id, each.tags, each.keys, len(each.body), each.reconsume_times
        )
        for each in call.messages
        if each.properties.get(names.TRACE_ON) != "false"
    ]
