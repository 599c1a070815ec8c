"""Hands popped messages to a listener; the group's members need not share queues out."""

import ssl

from epochmq.base.errors import UsageError
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.listening import Listener, Sql, UserListener, subscription
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.aio.pop_handling import PopConcurrent, PopOrdered
from epochmq.client.aio.pop_member import PopMember, PopOptions
from epochmq.client.core import pop_state
from epochmq.client.core.consumer_state import StartPoint
from epochmq.client.core.outgoing import check_callable, check_text
from epochmq.model.allocate import AVG, AVG_BY_CIRCLE
from epochmq.model.group import consumer_limit
from epochmq.model.names import check_group, check_topic, retry_topic
from epochmq.model.topic import MessageQueue

_STARTS = {"first": StartPoint.FIRST, "last": StartPoint.LAST}


class PopConsumer(Closing):
    """Use as `async with PopConsumer("127.0.0.1:9876", "group") as consumer: ...`.

    Call `on_message` and `subscribe` first, then `start`. A popped message is nobody else's for
    `invisible_ms`, and must be handled within that time: it is acknowledged when the listener is
    done, comes again later (10 s at first, up to 2 h) when it raises or returns LATER, and becomes
    a dead letter after `max_reconsume_times` (-1: never). With `ordered` a queue's messages come
    one by one, and one that fails holds those behind it.
    """

    def __init__(
        self,
        namesrv: str,
        group: str,
        *,
        ordered: bool = False,
        start: str = "last",
        concurrency: int = 20,
        pop_count: int = pop_state.POP_COUNT,
        invisible_ms: int = pop_state.INVISIBLE_MS,
        in_flight_max: int = pop_state.IN_FLIGHT_MAX,
        poll_ms: int = pop_state.POLL_MS,
        max_reconsume_times: int | None = None,
        strategy: str = AVG,
        name: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        check_text("group", group)
        check_group(group)
        if start not in _STARTS:
            raise UsageError(f"start is {start!r}; use 'first' or 'last'")
        if strategy not in (AVG, AVG_BY_CIRCLE):
            raise UsageError(f"strategy is {strategy!r}; brokers know {AVG} and {AVG_BY_CIRCLE}")
        options = PopOptions(
            ordered=ordered,
            start=_STARTS[start],
            pop_count=pop_count,
            invisible_ms=invisible_ms,
            in_flight_max=in_flight_max,
            poll_ms=poll_ms,
            max_reconsume_times=consumer_limit(max_reconsume_times, ordered=ordered),
            strategy=strategy,
        )
        self.group = group
        self.instance = Instance(namesrv, name=name, tls=tls)
        self.member = PopMember(self.instance, PopCalls(self.instance, group), group, options)
        self._concurrency = concurrency
        self._listener = UserListener()
        self._started = False

    def on_message(self, listener: Listener) -> Listener:
        """Set the listener; may be used as a decorator.

        A coroutine function, or a plain one that runs on the event loop and must not wait. What it
        returns: None or SUCCESS for done, LATER for again; anything else counts as LATER.

        It is given lists of one message.
        """
        check_callable("listener", listener)
        self._listener.function = listener
        return listener

    async def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Want the messages of `topic` that match `expression`; call again to change it."""
        check_text("topic", topic)
        check_topic(topic)
        await self.member.subscribe(subscription(topic, expression, self.instance.clock.wall_ms()))

    async def unsubscribe(self, topic: str) -> None:
        """Pop no more of `topic`."""
        await self.member.unsubscribe(topic)

    async def start(self) -> None:
        """Join the group; `UsageError` without a listener."""
        self._listener.check_set()
        if self._started:
            return
        self._started = True
        handling = (
            PopOrdered(self.member, self._listener.call)
            if self.member.options.ordered
            else PopConcurrent(self.member, self._listener.call, self._concurrency)
        )
        await self.member.start(handling)

    def finish(self) -> None:
        """Hand out nothing more: what waits is given back. Then `close`."""
        self.member.is_stopping = True

    @property
    def is_settled(self) -> bool:
        """Whether a broker told our share, and the last time without a hitch."""
        return self.member.is_settled

    def found_nothing(self) -> bool:
        """Whether the last pop of each of our shares found nothing, and nothing is in our hands."""
        shares = self.member.shares.values()
        return self.is_settled and all(s.was_empty and not s.in_flight for s in shares)

    def shares(self) -> list[MessageQueue]:
        """What is popped now of the topics wanted; number -1 stands for all queues of a broker."""
        retries = retry_topic(self.group)
        return sorted(queue for queue in self.member.shares if queue.topic != retries)

    async def _close(self) -> None:
        """Finish what listeners hold, acknowledge it, leave the group."""
        await self.member.stop()
        await self.instance.close(consumer=self.group if self._started else None)
