"""Calls to a consumer's listener, and the filters of a subscription."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any

from epochmq.base.errors import NotReachable, UsageError
from epochmq.client.aio.hooks import ClientHook, ConsumeCall, Hooks
from epochmq.client.core.namespaces import NO_NAMESPACE, Namespace
from epochmq.client.core.outgoing import check_text
from epochmq.model.group import SQL92, TAG, SubscriptionData, build
from epochmq.model.message import StoredMessage

log = logging.getLogger(__name__)


class ConsumeResult(Enum):
    """The result of a listener: SUCCESS, or LATER to get the messages again."""

    SUCCESS = "SUCCESS"
    LATER = "LATER"


Listener = Callable[[list[StoredMessage]], Awaitable[ConsumeResult | None] | ConsumeResult | None]
CallListener = Callable[[Sequence[StoredMessage]], Awaitable[ConsumeResult]]


class UserListener:
    """Holds the listener of the application, which may be replaced while the consumer runs."""

    def __init__(
        self, group: str, hooks: Iterable[ClientHook] = (), namespace: Namespace = NO_NAMESPACE
    ) -> None:
        self.function: Listener | None = None
        self.hooks: Hooks = Hooks(hooks)
        self._group = namespace.unwrap(group)
        self._namespace = namespace
        self._warned: set[type] = set()

    def check_set(self) -> None:
        """Raise `UsageError` if no listener is set."""
        if self.function is None:
            raise UsageError("set a listener with on_message before start")

    async def call(self, messages: Sequence[StoredMessage]) -> ConsumeResult:
        """Call the listener. None counts as SUCCESS; a value that is not a `ConsumeResult`
        counts as LATER.
        """
        messages = self._namespace.unwrap_messages(messages)
        if not self.hooks:
            return await self._call(messages)
        call = ConsumeCall(self._group, messages)
        self.hooks.begin_consume(call)
        try:
            result = await self._call(messages)
            call.is_done = result is ConsumeResult.SUCCESS
        except BaseException as error:
            call.error = error
            raise
        finally:
            self.hooks.end_consume(call)
        return result

    async def _call(self, messages: Sequence[StoredMessage]) -> ConsumeResult:
        assert self.function is not None
        result: object = self.function(list(messages))
        if inspect.isawaitable(result):
            result = await result
        if result is None:
            return ConsumeResult.SUCCESS
        if not isinstance(result, ConsumeResult):
            self._warn(result)
            return ConsumeResult.LATER
        return result

    def _warn(self, result: object) -> None:
        kind = type(result)
        if kind in self._warned:
            return
        self._warned.add(kind)
        log.warning(
            "the listener returned %(result).100r, which counts as LATER: its messages come again"
            " and end as dead letters; return None or ConsumeResult.SUCCESS for messages that are"
            " done",
            {"result": result},
        )


async def call_listener(listener: CallListener, messages: Sequence[StoredMessage]) -> ConsumeResult:
    """Call `listener` and return its result; an exception is logged and counts as LATER.

    If code of the listener raises CancelledError, that is a failure like others. If the task of the
    consumer is cancelled, CancelledError is raised. SystemExit and KeyboardInterrupt end the event
    loop, as in any task, and the messages are delivered again.
    """
    task = asyncio.current_task()
    cancels = task.cancelling() if task is not None else 0
    try:
        return await listener(messages)
    except asyncio.CancelledError:
        if task is not None and task.cancelling() > cancels:
            log.warning(
                "the listener was cancelled; %(msg_id)s is delivered again",
                {"msg_id": messages[0].msg_id},
            )
            raise
        log.exception(
            "the listener ended in CancelledError on %(msg_id)s", {"msg_id": messages[0].msg_id}
        )
    except (KeyboardInterrupt, SystemExit) as error:
        log.warning(
            "the listener raised %(error)r on %(msg_id)s",
            {"error": error, "msg_id": messages[0].msg_id},
        )
        asyncio.get_running_loop().call_soon(_raise, error)
    except GeneratorExit:
        raise
    except BaseException:
        log.exception("the listener failed on %(msg_id)s", {"msg_id": messages[0].msg_id})
    return ConsumeResult.LATER


async def wait_for_share(wait: Awaitable[None], group: str, timeout: float | None) -> None:
    """Await `wait`, which ends when a member of `group` has its share of the queues.

    Raises:
        NotReachable: that is not so within `timeout` seconds; None means no limit.
    """
    try:
        async with asyncio.timeout(timeout):
            await wait
    except TimeoutError:
        raise NotReachable(
            f"a member of {group} has no share of the queues after {timeout:g} s; is a broker of"
            " each topic reachable?"
        ) from None


def _raise(error: BaseException) -> None:
    raise error


# Listeners in threads ------------------------------------------------------------------------
# Plain functions that may block.


def run_in_thread(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Return `listener` as a function that runs in a thread, unless it is a coroutine function."""
    if inspect.iscoroutinefunction(listener):
        return listener
    function = _without_stop_iteration(listener)
    return lambda *args: asyncio.to_thread(function, *args)


def _without_stop_iteration(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Convert StopIteration to `UsageError`: a future cannot carry StopIteration, and would never
    end.
    """

    @wraps(listener, updated=())
    def call_in_thread(*args: Any) -> Any:
        try:
            return listener(*args)
        except StopIteration as error:
            raise UsageError(f"the listener raised {error!r}") from error

    return call_in_thread


# Subscriptions -------------------------------------------------------------------------------
# The filter of a subscription: tags by default, or SQL92 over message properties (`Sql`).


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 filter over message properties, for example `Sql("a > 5 AND b = 'x'")`."""

    expression: str


def subscription(topic: str, expression: str | Sql, version: int) -> SubscriptionData:
    """Return the subscription data that brokers expect.

    Args:
        topic: name of the topic.
        expression: tags, "*", or an `Sql` filter.
        version: Unix milliseconds; it must rise with each change, since brokers keep the largest.

    Raises:
        UsageError: the expression is not text.
        Refused: the expression has no tag or is empty (23).
    """
    if isinstance(expression, Sql):
        check_text("expression", expression.expression)
        return build(topic, expression.expression, SQL92, version)
    check_text("expression", expression)
    return build(topic, expression, TAG, version)


def matching(data: SubscriptionData, messages: list[StoredMessage]) -> list[StoredMessage]:
    """Return those of `messages` that match the tags of `data`, as `wants` decides."""
    if not data.is_tag or data.wants_all:
        return messages
    return [message for message in messages if wants(data, message)]


def wants(data: SubscriptionData, message: StoredMessage) -> bool:
    """Whether `message` matches the tags of `data`. SQL92 filters are evaluated by the broker only.

    Brokers compare hashes of tags, which may collide, so the client compares the tags again.
    """
    return not data.is_tag or data.wants_all or (message.tags or "") in data.tags_set
