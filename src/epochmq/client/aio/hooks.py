"""Hooks: objects that see each send and each listener call of a client.

They are given to a client as `hooks=[...]`. `MessageTrace` and `OpenTelemetry` are hooks; an
application may write its own.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum

from epochmq.base.errors import UsageError
from epochmq.client.aio.instance import Instance
from epochmq.client.core.route_cache import RouteCache
from epochmq.client.core.send_result import SendResult
from epochmq.model.message import Message, StoredMessage

log = logging.getLogger(__name__)


class MessageKind(IntEnum):
    """The kind of a message; the numbers are those of RocketMQ's message trace."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


@dataclass(slots=True)
class SendCall:
    """One send with all its tries.

    Attributes:
        group: name of the producer group.
        messages: what is sent. Before the send, a hook may add to their `properties`.
        kind: the kind of the messages.
        result: where they are stored; None before the end, or if they are not.
        error: why they are not stored, or None.
        address: address of the broker that stored them, if it is known.
        notes: what each hook keeps about this call, by hook.
    """

    group: str
    messages: Sequence[Message]
    kind: MessageKind = MessageKind.NORMAL
    result: SendResult | None = None
    error: BaseException | None = None
    address: str | None = None
    notes: dict["ClientHook", object] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """The topic of the messages."""
        return self.messages[0].topic

    @property
    def msg_ids(self) -> list[str]:
        """The ids of the messages, as far as they are known."""
        return self.result.msg_id.split(",") if self.result is not None else []


@dataclass(slots=True)
class ConsumeCall:
    """One call of the listener of a consumer.

    Attributes:
        group: name of the consumer group.
        messages: what the listener gets.
        is_done: whether the messages are handled; False before the end.
        error: what the listener raised, or None.
        notes: what each hook keeps about this call, by hook.
    """

    group: str
    messages: Sequence[StoredMessage]
    is_done: bool = False
    error: BaseException | None = None
    notes: dict["ClientHook", object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction, as its producer told it to the broker.

    Attributes:
        group: name of the producer group.
        topic: topic of the message.
        msg_id: id of the message.
        tags: tags of the message.
        keys: keys of the message.
        transaction_id: id of the transaction.
        is_committed: whether it is committed.
        is_answer_to_check: whether the broker had asked for it.
        address: address of the broker, if it is known.
    """

    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: Sequence[str]
    transaction_id: str
    is_committed: bool
    is_answer_to_check: bool
    address: str | None


class ClientHook:
    """Base of hooks: each method does nothing.

    Methods that are not coroutines must not wait. What a method raises is logged, and neither the
    client nor other hooks notice; only `open` may raise, and then the client does not start.
    """

    async def open(self, instance: Instance) -> None:
        """Called when a client starts; `instance` has its connections."""

    async def close(self) -> None:
        """Called when a client ends, if `open` succeeded."""

    def begin_send(self, call: SendCall) -> None:
        """Called before a send."""

    def end_send(self, call: SendCall) -> None:
        """Called after a send, with its result or error."""

    def begin_consume(self, call: ConsumeCall) -> None:
        """Called before the listener, in the same task."""

    def end_consume(self, call: ConsumeCall) -> None:
        """Called after the listener, in the same task."""

    def end_transaction(self, end: TransactionEnd) -> None:
        """Called after a transaction was ended."""


class Hooks:
    """The hooks of one client.

    Raises:
        UsageError: one of them is not a `ClientHook`.
    """

    def __init__(self, hooks: Iterable[ClientHook]) -> None:
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not isinstance(hook, ClientHook):
                raise UsageError(f"{hook!r} is not a hook; it must be a ClientHook")
        self._opened: list[ClientHook] = []

    def __bool__(self) -> bool:
        return bool(self._hooks)

    async def open(self, instance: Instance) -> None:
        """Open all hooks. If one raises an error, those before it are closed."""
        try:
            for hook in self._hooks:
                await hook.open(instance)
                self._opened.append(hook)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all hooks that were opened."""
        opened, self._opened = self._opened, []
        await asyncio.gather(*(_closed(hook) for hook in opened))

    @contextmanager
    def sending(
        self, group: str, messages: Sequence[Message], kind: MessageKind, routes: RouteCache
    ) -> Iterator[SendCall]:
        """Call the hooks before and after the block, which sends `messages` of the yielded call.

        These are copies, to which hooks may have added properties. The block sets `result`.
        """
        copies = [replace(each, properties=dict(each.properties)) for each in messages]
        call = SendCall(group, copies, kind)
        _call(self._hooks, "begin_send", lambda hook: hook.begin_send(call))
        try:
            yield call
        except BaseException as error:
            call.error = error
            raise
        finally:
            if call.result is not None:
                call.address = routes.master(call.result.queue.broker_name)
            _call(reversed(self._hooks), "end_send", lambda hook: hook.end_send(call))

    def begin_consume(self, call: ConsumeCall) -> None:
        """Call the hooks in their order."""
        _call(self._hooks, "begin_consume", lambda hook: hook.begin_consume(call))

    def end_consume(self, call: ConsumeCall) -> None:
        """Call the hooks, the last first."""
        _call(reversed(self._hooks), "end_consume", lambda hook: hook.end_consume(call))

    def end_transaction(self, end: TransactionEnd) -> None:
        """Call the hooks in their order."""
        _call(self._hooks, "end_transaction", lambda hook: hook.end_transaction(end))


def _call(hooks: Iterable[ClientHook], step: str, method: Callable[[ClientHook], None]) -> None:
    """Call a method of each hook; what it raises is logged."""
    for hook in hooks:
        try:
            method(hook)
        except Exception:
            _failed(hook, step)


async def _closed(hook: ClientHook) -> None:
    try:
        await hook.close()
    except Exception:
        _failed(hook, "close")


def _failed(hook: ClientHook, step: str) -> None:
    log.exception(
        "the hook %(hook)s failed in %(step)s", {"hook": type(hook).__name__, "step": step}
    )


def kind_of(message: Message, key: str | None) -> MessageKind:
    """Return the kind of a message that is sent alone; `key` orders it, if it is set."""
    if message.is_delayed:
        return MessageKind.DELAYED
    return MessageKind.NORMAL if key is None else MessageKind.ORDERED
