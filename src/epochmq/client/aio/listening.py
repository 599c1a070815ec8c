"""Calls a consumer's listener: however it ends, the result is one that the consumer can act on."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from epochmq.base.errors import UsageError
from epochmq.client.core.outgoing import check_text
from epochmq.model.group import SQL92, TAG, SubscriptionData, build
from epochmq.model.message import StoredMessage

log = logging.getLogger(__name__)


class ConsumeResult(Enum):
    """What a listener returns: SUCCESS, or LATER for messages that it wants again."""

    SUCCESS = "SUCCESS"
    LATER = "LATER"


Listener = Callable[[list[StoredMessage]], Awaitable[ConsumeResult | None] | ConsumeResult | None]
CallListener = Callable[[Sequence[StoredMessage]], Awaitable[ConsumeResult]]


class UserListener:
    """The listener that the application set; may be exchanged while the consumer runs."""

    def __init__(self) -> None:
        self.function: Listener | None = None
        self._warned: set[type] = set()

    def check_set(self) -> None:
        """Raise `UsageError` while there is no listener."""
        if self.function is None:
            raise UsageError("set a listener with on_message before start")

    async def call(self, messages: Sequence[StoredMessage]) -> ConsumeResult:
        """What the listener returned; None counts as SUCCESS, what is no result as LATER."""
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
            "the listener returned %.100r, which counts as LATER: its messages come again and end"
            " as dead letters; return None or ConsumeResult.SUCCESS for messages that are done",
            result,
        )


async def call_listener(listener: CallListener, messages: Sequence[StoredMessage]) -> ConsumeResult:
    """The result of `listener`; whatever it raises is logged and means LATER.

    A CancelledError of the listener's own (it awaited something that was cancelled) is a failure
    like others. One that somebody sent to the consumer's task ends that task. SystemExit and
    KeyboardInterrupt end the event loop, as they do from any task; the messages come again.
    """
    task = asyncio.current_task()
    cancels = task.cancelling() if task is not None else 0
    try:
        return await listener(messages)
    except asyncio.CancelledError:
        if task is not None and task.cancelling() > cancels:
            log.warning("the listener was cancelled; %s comes again", messages[0].msg_id)
            raise
        log.exception("the listener ended in CancelledError on %s", messages[0].msg_id)
    except (KeyboardInterrupt, SystemExit) as error:
        log.warning("the listener raised %r on %s", error, messages[0].msg_id)
        asyncio.get_running_loop().call_soon(_raise, error)
    except GeneratorExit:
        raise
    except BaseException:
        log.exception("the listener failed on %s", messages[0].msg_id)
    return ConsumeResult.LATER


def _raise(error: BaseException) -> None:
    raise error


# Subscribing ---------------------------------------------------------------------------------
# What a consumer may ask for: tags by default, SQL92 over properties when said so.


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 filter over message properties, as `Sql("a > 5 AND b = 'x'")`."""

    expression: str


def subscription(topic: str, expression: str | Sql, version: int) -> SubscriptionData:
    """The subscription as brokers want it; `version` is wall ms and rises with each change."""
    if isinstance(expression, Sql):
        check_text("expression", expression.expression)
        return build(topic, expression.expression, SQL92, version)
    check_text("expression", expression)
    return build(topic, expression, TAG, version)


def wants(data: SubscriptionData, message: StoredMessage) -> bool:
    """The client's half of tag filtering: brokers compare hashes, which collide."""
    return not data.is_tag or data.wants_all or (message.tags or "") in data.tags_set
