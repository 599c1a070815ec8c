"""Hands messages to a listener as they come, shares queues with the other members of the group."""

import ssl
from pathlib import Path

from epochmq.base.errors import UsageError
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.client.aio.consuming import Concurrent, OperatorRequests, Ordered
from epochmq.client.aio.group_member import CLUSTERING, GroupMember, Options
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.listening import ConsumeResult, Listener, Sql, UserListener, subscription
from epochmq.client.core.consumer_state import BYTES_MAX, StartPoint
from epochmq.client.core.outgoing import check_callable, check_text
from epochmq.model.allocate import Strategy, average
from epochmq.model.group import consumer_limit
from epochmq.model.names import check_group, check_topic
from epochmq.model.topic import MessageQueue

__all__ = ["ConsumeResult", "PushConsumer"]


class PushConsumer(Closing):
    """Use as `async with PushConsumer("127.0.0.1:9876", "group") as consumer: ...`.

    Call `on_message` and `subscribe` first, then `start` (entering the context starts nothing by
    itself until both are given). A listener that raises or returns LATER gets the messages again:
    later through the retry topic, or, when `ordered`, at once in the same place.

    A group that is new begins at `start`: with "last" at the end that each queue has when `start`
    is called. A message that failed after `max_reconsume_times` retries becomes a dead letter: by
    default 16, in order never (-1). No more is pulled of a queue while `max_buffered_bytes` of it
    wait for the listener, or 1,000 messages.
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
        max_buffered_bytes: int = BYTES_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        check_text("group", group)
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
            max_reconsume_times=consumer_limit(max_reconsume_times, ordered=ordered),
            offsets_dir=offsets_dir or Path.home() / ".epochmq_offsets",
            strategy=strategy,
            max_buffered_bytes=max_buffered_bytes,
        )
        calls = BrokerCalls(self.instance, group)
        self.member = GroupMember(self.instance, calls, group, options)
        self._concurrency = concurrency
        self._listener = UserListener()
        self._started = False
        OperatorRequests(self.member, self._listener.call).install()

    def on_message(self, listener: Listener) -> Listener:
        """Set the listener; may be used as a decorator.

        A coroutine function, or a plain one that runs on the event loop and must not wait. What it
        returns: None or SUCCESS for done, LATER for again; anything else counts as LATER."""
        check_callable("listener", listener)
        self._listener.function = listener
        return listener

    async def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Want the messages of `topic` that match `expression`; call again to change it."""
        check_text("topic", topic)
        check_topic(topic)
        data = subscription(topic, expression, self.instance.clock.wall_ms())
        await self.member.subscribe(data)

    async def unsubscribe(self, topic: str) -> None:
        """Give all queues of `topic` back."""
        await self.member.unsubscribe(topic)

    async def start(self) -> None:
        """Join the group; `UsageError` without a listener or a subscription."""
        self._listener.check_set()
        if self._started:
            return
        self._started = True
        consuming = (
            Ordered(self.member, self._listener.call)
            if self.member.options.ordered
            else Concurrent(self.member, self._listener.call, self._concurrency)
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

    async def _close(self) -> None:
        """Finish what listeners hold, commit offsets, leave the group."""
        await self.member.stop()
        await self.instance.close(consumer=self.group if self._started else None)


def parse_start(start: str | int) -> tuple[StartPoint, int]:
    """Where a new group begins: "first", "last" or wall ms."""
    if isinstance(start, int):
        return StartPoint.TIMESTAMP, start
    if start == "first":
        return StartPoint.FIRST, 0
    if start == "last":
        return StartPoint.LAST, 0
    raise UsageError(f"start is {start!r}; use 'first', 'last' or milliseconds since 1970")
