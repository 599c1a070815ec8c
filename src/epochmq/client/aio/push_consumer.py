"""The asyncio push consumer: passes messages to a listener and shares queues with its group."""

import ssl
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Literal

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import UsageError
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.client.aio.consuming import Concurrent, OperatorRequests, Ordered
from epochmq.client.aio.group_member import CLUSTERING, GroupMember, Options
from epochmq.client.aio.hooks import ClientHook
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.listening import (
    ConsumeResult,
    Listener,
    Sql,
    UserListener,
    run_in_thread,
    subscription,
    wait_for_share,
)
from epochmq.client.aio.message_stream import IteratedListener
from epochmq.client.core.consumer_state import BYTES_MAX, COUNT_MAX, PULL_COUNT, StartPoint
from epochmq.client.core.namespaces import Namespace
from epochmq.client.core.outgoing import check_callable, check_text
from epochmq.model.allocate import Strategy, average
from epochmq.model.group import consumer_limit
from epochmq.model.message import StoredMessage
from epochmq.model.names import check_group, check_topic
from epochmq.model.topic import MessageQueue

__all__ = ["ConsumeResult", "PushConsumer"]


class PushConsumer(Closing):
    """Calls a listener with messages. Use as `async with PushConsumer("127.0.0.1:9876", "group") as
    c`.

    Call `on_message` and `subscribe`, then `start`. When the listener raises an error or returns
    LATER, its messages are delivered again: through the retry topic after a delay, or, if
    `ordered`, after 1 s at the same place in the queue. A message that fails after
    `max_reconsume_times` retries becomes a dead letter.

    Or iterate it: `async for message in consumer` starts the consumer, and a message is handled
    when the next one is asked for. The last message before a `break` or an error is delivered
    again.

    The consumer pulls no more of a queue while `max_buffered_messages` or `max_buffered_bytes` of
    it are not handled yet.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        group: name of the consumer group.
        model: "CLUSTERING" (members share the queues) or "BROADCASTING" (each member reads all
            queues, and keeps its offsets in a local file).
        ordered: whether each queue is handled strictly in order, one listener call at a time.
        start: where a group without committed offsets begins: "first", "last" (the end of each
            queue when `start` is called), or a Unix time in milliseconds.
        concurrency: listener calls at the same time; not used if `ordered`.
        batch_size: messages in one listener call at most.
        pull_count: messages in one pull at most; RocketMQ's brokers return up to 32,
            EpochMQ's up to their `maxTransferCountOnMessageInMemory`.
        max_reconsume_times: retries before a message becomes a dead letter; None means 16, or no
            limit if `ordered`; a negative number means no limit.
        offsets_dir: directory of the offset file in BROADCASTING; None means `~/.epochmq_offsets`.
        name: last part of the client id; None means process id and a random number.
        strategy: function that allocates queues to members; all members must use the same one.
        max_buffered_bytes: bytes of one queue that may wait for the listener; default 100 MiB.
        max_buffered_messages: messages of one queue that may wait for the listener.
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
        model: Literal["CLUSTERING", "BROADCASTING"] = CLUSTERING,
        ordered: bool = False,
        start: Literal["first", "last"] | int = "last",
        concurrency: int = 20,
        batch_size: int = 1,
        pull_count: int = PULL_COUNT,
        max_reconsume_times: int | None = None,
        offsets_dir: Path | None = None,
        name: str | None = None,
        strategy: Strategy = average,
        max_buffered_bytes: int = BYTES_MAX,
        max_buffered_messages: int = COUNT_MAX,
        namespace: str | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        hooks: Iterable[ClientHook] = (),
    ) -> None:
        check_text("group", group)
        self._namespace = Namespace(namespace)
        group = self._namespace.wrap(group)
        check_group(group)
        self.group = group
        self.instance: Instance = Instance(namesrv, name=name, tls=tls, credentials=credentials)
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
            max_buffered_messages=max_buffered_messages,
        )
        calls = BrokerCalls(self.instance, group)
        self.member: GroupMember = GroupMember(self.instance, calls, group, options)
        self._concurrency = concurrency
        self._listener = UserListener(group, hooks, self._namespace)
        self._iterated = IteratedListener(self._listener)
        self._started = False
        OperatorRequests(self.member, self._listener.call).install()

    def on_message(self, listener: Listener, *, in_thread: bool | None = None) -> Listener:
        """Set the listener; can be used as a decorator.

        Args:
            listener: takes a list of messages. A coroutine function or a plain function. It returns
                None or SUCCESS when the messages are handled, and LATER to get them again. Any
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
        data = subscription(topic, expression, self.instance.clock.wall_ms())
        await self.member.subscribe(data)

    async def unsubscribe(self, topic: str) -> None:
        """End the subscription of `topic`: commit the offsets of its queues and give the queues
        back.
        """
        await self.member.unsubscribe(self._namespace.wrap(topic))

    async def start(self) -> None:
        """Join the group and begin to consume. A second call does nothing.

        Raises:
            UsageError: no listener is set, or this client cannot be used.
            NotReachable: no name server answers.
        """
        self._listener.check_set()
        if self._started:
            return
        await self._listener.hooks.open(self.instance)
        self._started = True
        consuming = (
            Ordered(self.member, self._listener.call)
            if self.member.options.ordered
            else Concurrent(self.member, self._listener.call, self._concurrency)
        )
        await self.member.start(consuming)

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until this member owns its share of the queues.

        Args:
            timeout: seconds to wait; None means no limit.

        Raises:
            NotReachable: that is not so in time.
        """
        await wait_for_share(self.member.wait_settled(), self.group, timeout)

    def assignment(self) -> tuple[MessageQueue, ...]:
        """Return the queues that this member owns now, without those of the retry topic."""
        return self._namespace.unwrap_queues(self.member.assignment())

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull no more messages; those that are here already are still handled.

        A pause outlives a rebalance: a queue that comes back is still paused.

        Args:
            queues: the queues to pause; None means all, also those that are assigned later.
        """
        self.member.pause(self._wrapped(queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """End a pause.

        Args:
            queues: the queues to resume; None means all.
        """
        self.member.resume(self._wrapped(queues))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of a queue: commit it, and drop what waits for the listener.

        Messages that a listener is handling are not taken back. The queue is consumed again after
        the next rebalance, which follows at once.

        Args:
            queue: one of `assignment()`.
            offset: index in the queue of the next message.

        Raises:
            UsageError: this member does not own the queue.
            NotReachable, Refused: the offset could not be committed; nothing has changed.
        """
        await self.member.seek(self._namespace.wrap_queue(queue), offset)

    def _wrapped(self, queues: Iterable[MessageQueue] | None) -> list[MessageQueue] | None:
        return None if queues is None else [self._namespace.wrap_queue(queue) for queue in queues]

    def finish(self) -> None:
        """Stop calling the listener; messages that wait or fail stay uncommitted. Call `close`
        next.
        """
        self.member.is_stopping = True

    @property
    def is_settled(self) -> bool:
        """Whether the last rebalance had no errors, so that this member owns its share of the
        queues.
        """
        return self.member.is_settled

    def progress(self) -> dict[MessageQueue, int]:
        """Return, for each queue of this member, the offset before which all messages
        are consumed.
        """
        unwrap = self._namespace.unwrap_queue
        return {unwrap(queue): owned.progress for queue, owned in self.member.owned.items()}

    async def _close(self) -> None:
        """Wait for running listeners (up to 5 s), commit offsets and leave the group."""
        if self._iterated.end():
            self.member.is_stopping = True
        await self.member.stop()
        await self._listener.hooks.close()
        await self.instance.close(consumer=self.group if self._started else None)


def parse_start(start: str | int) -> tuple[StartPoint, int]:
    """Read the start of a new group: "first", "last", or Unix milliseconds. Else raise
    `UsageError`.
    """
    if isinstance(start, int):
        return StartPoint.TIMESTAMP, start
    if start == "first":
        return StartPoint.FIRST, 0
    if start == "last":
        return StartPoint.LAST, 0
    raise UsageError(f"start is {start!r}; use 'first', 'last' or milliseconds since 1970")
