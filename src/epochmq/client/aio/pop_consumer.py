"""The asyncio POP consumer: passes popped messages to a listener."""

import ssl
from collections.abc import AsyncGenerator, Iterable
from typing import Literal

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import UsageError
from epochmq.client.aio.hooks import ClientHook
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.listening import (
    Listener,
    Sql,
    UserListener,
    run_in_thread,
    subscription,
    wait_for_share,
)
from epochmq.client.aio.message_stream import IteratedListener
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.aio.pop_handling import PopConcurrent, PopOrdered
from epochmq.client.aio.pop_member import PopMember, PopOptions
from epochmq.client.core import pop_state
from epochmq.client.core.consumer_state import StartPoint
from epochmq.client.core.namespaces import Namespace
from epochmq.client.core.outgoing import check_callable, check_text
from epochmq.model.allocate import AVG, AVG_BY_CIRCLE
from epochmq.model.group import consumer_limit
from epochmq.model.message import StoredMessage
from epochmq.model.names import check_group, check_topic, retry_topic
from epochmq.model.topic import MessageQueue

_STARTS = {"first": StartPoint.FIRST, "last": StartPoint.LAST}


class PopConsumer(Closing):
    """Calls a listener with popped messages. Use as `async with PopConsumer("127.0.0.1:9876", "g")
    as c`.

    Call `on_message` and `subscribe`, then `start`. A popped message is invisible to other members
    for `invisible_ms`, and must be handled within that time. The consumer acknowledges a message
    when the listener is done. When the listener raises an error or returns LATER, the message
    becomes visible again later: 10 s after the first failure, up to 2 h after many. After
    `max_reconsume_times` retries it becomes a dead letter.

    Or iterate it: `async for message in consumer` starts the consumer, and a message is
    acknowledged when the next one is asked for. The last message before a `break` or an error is
    delivered again.

    If `ordered`, the messages of a queue are handled one by one. A message that fails is repeated
    after 1 s, before the messages that follow it.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        group: name of the consumer group.
        ordered: whether each queue is handled strictly in order.
        start: where a new group begins: "first" or "last" (the end of each queue).
        concurrency: listener calls at the same time; not used if `ordered`.
        pop_count: messages in one pop at most, from 1 to 32.
        invisible_ms: milliseconds for which a popped message is hidden, from 5,000 to 300,000.
        in_flight_max: messages of one queue that are popped and not acknowledged yet, at most.
        poll_ms: milliseconds that a broker waits for a message when it has none.
        max_reconsume_times: retries before a message becomes a dead letter; None means 16, or no
            limit if `ordered`; a negative number means no limit.
        strategy: allocation strategy of the broker: "AVG" or "AVG_BY_CIRCLE".
        name: last part of the client id; None means process id and a random number.
        namespace: added to names of topics and groups, as RocketMQ's clients do (`NAMESPACE%NAME`);
            results and messages show the names without it. None means no namespace.
        tls: settings of TLS; None means the setting of the process, by default no TLS.
        credentials: the user who signs the requests; None means the user of the process, if any.
        hooks: see each call of the listener, for example `MessageTrace()` or `OpenTelemetry()`.

    Raises:
        UsageError: an argument has a wrong type or value.
        Refused: `group` is not a valid group name (code 1).
    """

    def __init__(
        self,
        namesrv: str,
        group: str,
        *,
        ordered: bool = False,
        start: Literal["first", "last"] = "last",
        concurrency: int = 20,
        pop_count: int = pop_state.POP_COUNT,
        invisible_ms: int = pop_state.INVISIBLE_MS,
        in_flight_max: int = pop_state.IN_FLIGHT_MAX,
        poll_ms: int = pop_state.POLL_MS,
        max_reconsume_times: int | None = None,
        strategy: Literal["AVG", "AVG_BY_CIRCLE"] = AVG,
        name: str | None = None,
        namespace: str | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        hooks: Iterable[ClientHook] = (),
    ) -> None:
        check_text("group", group)
        self._namespace = Namespace(namespace)
        group = self._namespace.wrap(group)
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
        self.instance: Instance = Instance(namesrv, name=name, tls=tls, credentials=credentials)
        calls = PopCalls(self.instance, group)
        self.member: PopMember = PopMember(self.instance, calls, group, options)
        self._concurrency = concurrency
        self._listener = UserListener(group, hooks, self._namespace)
        self._iterated = IteratedListener(self._listener)
        self._started = False

    def on_message(self, listener: Listener, *, in_thread: bool | None = None) -> Listener:
        """Set the listener; can be used as a decorator.

        Args:
            listener: takes a list with one message. A coroutine function or a plain function. It
                returns None or SUCCESS when the message is handled, and LATER to get it again. Any
                other value counts as LATER.
            in_thread: whether a plain function runs in a thread and may block. By default it runs
                on the event loop and must not block.

        Returns:
            The listener.

        Raises:
            UsageError: `listener` cannot be called.
        """
        check_callable("listener", listener)
        self._listener.function = run_in_thread(listener) if in_thread else listener
        return listener

    def __aiter__(self) -> AsyncGenerator[StoredMessage, None]:
        """Return an iterator over the messages; several share them.

        Raises:
            UsageError: a listener is set.
        """
        return self._iterated.messages(self.start)

    async def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Subscribe to `topic`; a second call for the same topic replaces the filter.

        Args:
            topic: name of the topic; it may not exist yet.
            expression: tags as "a || b", "*" for all messages, or an `Sql` filter.

        Raises:
            UsageError: an argument has a wrong type.
            Refused: `topic` is not a valid name (1), or `expression` has no tag (23).
            NotReachable: the consumer has started and no name server answers.
        """
        check_text("topic", topic)
        topic = self._namespace.wrap(topic)
        check_topic(topic)
        await self.member.subscribe(subscription(topic, expression, self.instance.clock.wall_ms()))

    async def unsubscribe(self, topic: str) -> None:
        """End the subscription of `topic`; the consumer pops no more of it."""
        await self.member.unsubscribe(self._namespace.wrap(topic))

    async def start(self) -> None:
        """Join the group and begin to pop. A second call does nothing.

        Raises:
            UsageError: no listener is set, or this client cannot be used.
            NotReachable: no name server answers.
        """
        self._listener.check_set()
        if self._started:
            return
        await self._listener.hooks.open(self.instance)
        self._started = True
        handling = (
            PopOrdered(self.member, self._listener.call)
            if self.member.options.ordered
            else PopConcurrent(self.member, self._listener.call, self._concurrency)
        )
        await self.member.start(handling)

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until the brokers have given this member its share.

        Args:
            timeout: seconds to wait; None means no limit.

        Raises:
            NotReachable: that is not so in time.
        """
        await wait_for_share(self.member.wait_settled(), self.group, timeout)

    def pause(self) -> None:
        """Pop no more messages; those that were asked for already are still handled."""
        self.member.pause()

    def resume(self) -> None:
        """End a pause."""
        self.member.resume()

    def finish(self) -> None:
        """Stop calling the listener; messages that wait become visible to others. Call `close`
        next.
        """
        self.member.is_stopping = True

    @property
    def is_settled(self) -> bool:
        """Whether the last request for the assignment of each topic had no errors."""
        return self.member.is_settled

    def found_nothing(self) -> bool:
        """Whether the last pop of each assigned queue was empty and no message is unacknowledged
        here.
        """
        shares = self.member.shares.values()
        return self.is_settled and all(s.was_empty and not s.in_flight for s in shares)

    def shares(self) -> list[MessageQueue]:
        """Return the queues that are popped now; queue id -1 means all queues of a broker.

        The retry topic of the group is left out.
        """
        retries = retry_topic(self.group)
        shares = (queue for queue in self.member.shares if queue.topic != retries)
        return sorted(self._namespace.unwrap_queues(shares))

    async def _close(self) -> None:
        """Wait for running listeners and their acknowledgements, then leave the group."""
        if self._iterated.end():
            self.member.is_stopping = True
        await self.member.stop()
        await self._listener.hooks.close()
        await self.instance.close(consumer=self.group if self._started else None)
