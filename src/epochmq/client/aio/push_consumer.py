"""Hands messages to a listener as they come, shares queues with the other members of the group."""

import inspect
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from epochmq.base.errors import UsageError
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.client.aio.closing import Closing
from epochmq.client.aio.consuming import Concurrent, ConsumeResult, Ordered
from epochmq.client.aio.group_member import CLUSTERING, GroupMember, Options
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.operator_requests import OperatorRequests
from epochmq.client.aio.subscribing import Sql, subscription
from epochmq.client.core.pull_state import StartPoint
from epochmq.model.allocate import Strategy, average
from epochmq.model.message import StoredMessage
from epochmq.model.names import check_group, check_topic
from epochmq.model.queue import MessageQueue

__all__ = ["ConsumeResult", "PushConsumer"]

Listener = Callable[[list[StoredMessage]], Awaitable[ConsumeResult | None] | ConsumeResult | None]


class PushConsumer(Closing):
    """Use as `async with PushConsumer("127.0.0.1:9876", "group") as consumer: ...`.

    Call `on_message` and `subscribe` first, then `start` (entering the context starts nothing by
    itself until both are given). A listener that raises or returns LATER gets the messages again:
    later through the retry topic, or, when `ordered`, at once in the same place.
    """

    def __init__(
        self,
        namesrv: str,
        group: str,
        *,
        model: str = CLUSTERING,
        ordered: bool = False,
        start: str | int = "last",
        concurrency: int = 20,
        batch_size: int = 1,
        pull_count: int = 32,
        max_reconsume_times: int | None = None,
        offsets_dir: Path | None = None,
        name: str | None = None,
        strategy: Strategy = average,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.instance = Instance(namesrv, name=name, tls=tls)
        start_point, start_wall_ms = parse_start(start)
        options = Options(
            model=model,
            ordered=ordered,
            start=start_point,
            start_wall_ms=start_wall_ms,
            batch_size=batch_size,
            pull_count=pull_count,
            max_reconsume_times=_reconsume_limit(max_reconsume_times, ordered),
            offsets_dir=offsets_dir or Path.home() / ".epochmq_offsets",
            strategy=strategy,
        )
        calls = BrokerCalls(self.instance, group)
        self.member = GroupMember(self.instance, calls, group, options)
        self._concurrency = concurrency
        self._listener: Listener | None = None
        self._started = False
        OperatorRequests(self.member, self._call_listener).install()

    def on_message(self, listener: Listener) -> Listener:
        """Set the listener; may be used as a decorator. It may be a coroutine function."""
        self._listener = listener
        return listener

    async def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Want the messages of `topic` that match `expression`; call again to change it."""
        check_topic(topic)
        data = subscription(topic, expression, self.instance.clock.wall_ms())
        await self.member.subscribe(data)

    async def unsubscribe(self, topic: str) -> None:
        """Give all queues of `topic` back."""
        await self.member.unsubscribe(topic)

    async def start(self) -> None:
        """Join the group; `UsageError` without a listener or a subscription."""
        if self._listener is None:
            raise UsageError("set a listener with on_message before start")
        if self._started:
            return
        self._started = True
        consuming = (
            Ordered(self.member, self._call_listener)
            if self.member.options.ordered
            else Concurrent(self.member, self._call_listener, self._concurrency)
        )
        await self.member.start(consuming)

    def finish(self) -> None:
        """Hand out nothing more: what waits, or fails now, stays uncommitted. Then `close`."""
        self.member.is_stopping = True

    @property
    def is_settled(self) -> bool:
        """Whether the queues were shared out, and the last time without a hitch."""
        return self.member.is_settled

    def progress(self) -> dict[MessageQueue, int]:
        """For each queue that is ours now: all before this offset was consumed."""
        return {queue: owned.progress for queue, owned in self.member.owned.items()}

    async def close(self) -> None:
        """Finish what listeners hold, commit offsets, leave the group."""
        await self.member.stop()
        await self.instance.close(consumer=self.group if self._started else None)

    async def _call_listener(self, messages: Sequence[StoredMessage]) -> ConsumeResult:
        assert self._listener is not None
        result = self._listener(list(messages))
        if inspect.isawaitable(result):
            result = await result
        return ConsumeResult.SUCCESS if result is None else result


def parse_start(start: str | int) -> tuple[StartPoint, int]:
    """Where a new group begins: "first", "last" or wall ms."""
    if isinstance(start, int):
        return StartPoint.TIMESTAMP, start
    if start == "first":
        return StartPoint.FIRST, 0
    if start == "last":
        return StartPoint.LAST, 0
    raise UsageError(f"start is {start!r}; use 'first', 'last' or milliseconds since 1970")


def _reconsume_limit(wanted: int | None, ordered: bool) -> int:
    if wanted is not None:
        return wanted
    return -1 if ordered else 16
