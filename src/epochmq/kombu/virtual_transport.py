"""The transport: kombu's queues are topics, each with one consumer group that pops it.

A queue is a topic and a consumer group of its name. If a queue is declared with a maximum
priority, each priority is one queue of the topic, and a higher number is more urgent, as in AMQP.
A fanout exchange is a topic, which each bound queue reads with its own group.

Bindings of other exchanges, and maximum priorities, are kept in the process, as in kombu's other
virtual transports: each process declares them.

The URL is `epochmq://[user:password@]host[:port]`, host and port of a name server. Without a user
the credentials are those of the process (docs/SECURITY.md).

Options (`broker_transport_options` of Celery):
    namesrv: addresses of the name servers, "host:port;host:port"; otherwise that of the URL.
    visibility_timeout: seconds for which a message is hidden after its consumer's process died.
    queues_per_topic: number of queues of a new topic.
"""

import base64
import json
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from kombu.transport import virtual
from kombu.transport.base import Implements

from epochmq import __version__
from epochmq.auth.credentials import Credentials
from epochmq.base.errors import EpochError, NotFound, NotReachable, PeerError, UsageError
from epochmq.client.core.consumer_state import StartPoint
from epochmq.kombu.broker_link import BrokerLink
from epochmq.kombu.broker_names import fanout_topic_of, group_of, topic_of
from epochmq.kombu.queue_reader import QueueReader, UnackedMessage
from epochmq.model.message import StoredMessage
from epochmq.runtime import loop_thread

PORT = 9876
VISIBILITY_S = 60
VISIBILITY_MIN_S, VISIBILITY_MAX_S = 5, 300
QUEUES_PER_TOPIC = 8
UNLIMITED_PREFETCH = 128
"""Unacknowledged messages of a channel without a prefetch limit."""
REPLY_EXCHANGES = "reply."
"""Prefix of the exchanges of replies to remote-control commands (`kombu.pidbox`)."""
MAX_PRIORITY = "x-max-priority"
"""Argument of a declaration of a queue: its highest priority (`Queue(max_priority=...)`)."""
_WAIT_S = 1.0


class EpochChannel(virtual.Channel):  # type: ignore[misc]
    """One channel: what it consumes, and which messages are not acknowledged."""

    supports_fanout = True
    do_restore = True

    def __init__(self, connection: "EpochTransport", **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._broker = connection.broker
        self._readers: dict[str, QueueReader] = {}
        self._idle_readers: dict[str, QueueReader] = {}
        """Readers of queues that are asked for single messages."""
        self._ready: queue.SimpleQueue[tuple[str, UnackedMessage]] = queue.SimpleQueue()
        self._tags: dict[str, tuple[QueueReader, UnackedMessage]] = {}
        """Unacknowledged messages with their readers, by delivery tag."""
        self._fanouts = connection.fanouts
        self._priorities = connection.priorities

    # Queues ----------------------------------------------------------------------------------

    def _topic_and_group(self, queue_name: str) -> tuple[str, str]:
        """Return topic and group of a queue."""
        exchange = self._fanouts.get(queue_name)
        topic = topic_of(queue_name) if exchange is None else fanout_topic_of(exchange)
        return topic, group_of(queue_name)

    def prepare_queue_arguments(
        self, arguments: dict[str, Any] | None, max_priority: int | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the arguments of a declaration of a queue, under RabbitMQ's names."""
        given = {} if max_priority is None else {MAX_PRIORITY: max_priority}
        return {**(arguments or {}), **given}

    def _new_queue(
        self, queue_name: str, arguments: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        topic = topic_of(queue_name)
        highest = (arguments or {}).get(MAX_PRIORITY)
        if highest:
            if not isinstance(highest, int) or highest < 0:
                raise UsageError(
                    f"{MAX_PRIORITY} of queue {queue_name!r} is {highest!r}: a number from 0 to"
                    f" {self.max_priority} is expected"
                )
            self._priorities[queue_name] = min(highest, self.max_priority) + 1
        self._broker.run(self._broker.ensure(topic, self._priorities.get(queue_name, 0)))

    def _has_queue(self, queue_name: str, **kwargs: Any) -> bool:
        return self._broker.run(self._broker.exists(topic_of(queue_name)))

    def _size(self, queue_name: str) -> int:
        try:
            return self._broker.run(self._broker.lag(*self._topic_and_group(queue_name)))
        except NotFound:
            return 0

    def _put(self, queue_name: str, message: dict[str, Any], **kwargs: Any) -> None:
        body = json.dumps(message).encode()
        exchange = message["properties"].get("delivery_info", {}).get("exchange", "")
        topic, priorities = topic_of(queue_name), self._priorities.get(queue_name)
        if exchange.startswith(REPLY_EXCHANGES):
            self._broker.run(self._broker.send_if_there(topic, body))
        elif priorities is None:
            self._broker.run(self._broker.send(topic, body))
        else:
            priority = min(self._get_message_priority(message), priorities - 1)
            work = self._broker.send_with_priority(topic, body, priority, priorities)
            self._broker.run(work)

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        """Return the queues that a message goes to.

        A process that replies to a remote-control command does not know the binding of the reply
        queue, which the process that asks declares. kombu names this queue
        `<routing key>.<exchange>` (`kombu.pidbox.Mailbox.get_reply_queue`).
        """
        found: list[str] = super()._lookup(exchange, routing_key, default)
        if not found and exchange.startswith(REPLY_EXCHANGES):
            return [f"{routing_key}.{exchange}"]
        return found

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any
    ) -> None:
        body = json.dumps(message).encode()
        self._broker.run(self._broker.send(fanout_topic_of(exchange), body))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue_name: str) -> None:
        if self.typeof(exchange).type == "fanout":
            self._fanouts[queue_name] = exchange
            topic, group = self._topic_and_group(queue_name)
            self._broker.run(self._broker.ensure(topic))
            self._broker.run(self._broker.begin_at_end(topic, group))

    def _purge(self, queue_name: str) -> int:
        return self._broker.run(self._asked(queue_name).purge())

    def _delete(self, queue_name: str, *args: Any, **kwargs: Any) -> None:
        self._broker.run(self._broker.delete(topic_of(queue_name), group_of(queue_name)))
        self._fanouts.pop(queue_name, None)

    # Reading ---------------------------------------------------------------------------------

    def _reader(self, queue_name: str) -> QueueReader:
        topic, group = self._topic_and_group(queue_name)
        is_fanout = queue_name in self._fanouts

        def offer(unacked: UnackedMessage) -> None:
            self._ready.put((queue_name, unacked))
            self.connection.arrived.set()

        async def make() -> QueueReader:
            instance = self._broker.new_instance()
            reader = QueueReader(
                instance,
                topic,
                group,
                start=StartPoint.LAST if is_fanout else StartPoint.FIRST,
                invisible_ms=self.connection.visibility_ms,
                room=self._room,
                offer=offer,
                priorities=1 if is_fanout else self._priorities.get(queue_name, 1),
            )
            await instance.start()  # with the heartbeats of the reader
            return reader

        return self._broker.run(make())

    def _asked(self, queue_name: str) -> QueueReader:
        reader = self._readers.get(queue_name) or self._idle_readers.get(queue_name)
        if reader is None:
            reader = self._idle_readers[queue_name] = self._reader(queue_name)
        return reader

    def _room(self) -> int:
        """Return how many more messages may be popped; called on the other thread."""
        qos = self.qos
        limit = qos.prefetch_count or UNLIMITED_PREFETCH
        return limit - len(self._tags) - self._ready.qsize()

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[..., Any],
        consumer_tag: str,
        **kwargs: Any,
    ) -> None:
        """Consume from `queue`."""

        def acknowledge_first(message: virtual.Message) -> Any:
            self.basic_ack(message.delivery_tag)
            return callback(message)

        deliver = acknowledge_first if no_ack else callback
        super().basic_consume(queue, no_ack, deliver, consumer_tag, **kwargs)
        if queue not in self._readers:
            reader = self._readers[queue] = self._asked(queue)
            del self._idle_readers[queue]
            loop_thread.call(reader.start)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Consume no more; what waits in this process is given back."""
        queue_name = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue_name is None or queue_name in self._active_queues:
            return
        reader = self._readers.pop(queue_name, None)
        if reader is not None:
            self._idle_readers[queue_name] = reader
            self._broker.run(reader.stop())
            self._give_back_ready(queue_name)

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Limit the number of unacknowledged messages."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self._wake()

    def drain_events(self, timeout: float | None = None, callback: Any = None) -> None:
        """Deliver one message that is here; raises `queue.Empty`."""
        if not (self._consumers and self.qos.can_consume()):
            raise queue.Empty
        message = None
        while message is None:
            queue_name, unacked = self._ready.get_nowait()
            reader = self._readers.get(queue_name)
            if reader is None:
                self._broker.run(self._idle_readers[queue_name].give_back(unacked))
                continue
            message = self._decoded(reader, unacked)
        deliver = callback or self.connection._deliver
        deliver(message, queue_name)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Return the next message of `queue`, or None."""
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.basic_ack(message.delivery_tag)
        return message

    def _get(self, queue_name: str, timeout: float | None = None) -> dict[str, Any]:
        reader = self._asked(queue_name)
        message = None
        while message is None:
            unacked = self._broker.run(reader.get())
            if unacked is None:
                raise queue.Empty
            message = self._decoded(reader, unacked)
        return message

    def _decoded(self, reader: QueueReader, unacked: UnackedMessage) -> dict[str, Any] | None:
        """Return the message as kombu's dict, with a delivery tag of its own.

        A message that has expired is acknowledged, and None is returned.
        """
        message = _kombu_message(unacked.message) or _foreign(unacked.message)
        if _is_expired(message, unacked.message):
            self._broker.run(reader.ack(unacked))
            return None
        properties = message["properties"]
        tag = properties["delivery_tag"] = self._next_delivery_tag()
        if unacked.message.reconsume_times:
            properties["delivery_info"]["redelivered"] = True
        self._tags[tag] = reader, unacked
        return message

    # Acknowledgements ------------------------------------------------------------------------

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge a message."""
        reader_and_message = self._tags.pop(delivery_tag, None)
        super().basic_ack(delivery_tag)
        if reader_and_message is not None:
            reader, unacked = reader_and_message
            self._broker.run(reader.ack(unacked))
        self._wake()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give a message back, or drop it."""
        if requeue:
            super().basic_reject(delivery_tag, requeue=True)
        else:
            self.basic_ack(delivery_tag)

    def _restore(self, message: virtual.Message) -> None:
        found = self._tags.pop(message.delivery_tag, None)
        if found is not None:
            reader, unacked = found
            is_asked = reader in self._idle_readers.values() and not self.closed
            work = reader.keep_for_get if is_asked else reader.give_back
            self._broker.run(work(unacked))
        self._wake()

    def _give_back_ready(self, queue_name: str | None) -> None:
        """Give back what was popped and not delivered, of one queue or of all."""
        kept = []
        while True:
            try:
                name, unacked = self._ready.get_nowait()
            except queue.Empty:
                break
            if queue_name in (None, name):
                reader = self._readers.get(name) or self._idle_readers[name]
                self._broker.run(reader.give_back(unacked))
            else:
                kept.append((name, unacked))
        for each in kept:
            self._ready.put(each)

    def _wake(self) -> None:
        readers = list(self._readers.values())

        def wake() -> None:
            for reader in readers:
                reader.wake()

        if readers:
            loop_thread.call(wake)

    def close(self) -> None:
        """Stop reading, give back unacknowledged messages, and close the connections."""
        if self.closed:
            return
        try:
            self._broker.run(self._broker.stop_reading(self._readers.values()))
            self._give_back_ready(None)
        except (EpochError, OSError):
            pass  # the messages are delivered again when their invisible time is over
        super().close()  # it gives back what is not acknowledged, by `_restore`
        if self._broker.is_forked:
            return  # the connections belong to the process that made them
        try:
            readers = (*self._readers.values(), *self._idle_readers.values())
            self._broker.run(self._broker.close_readers(readers))
        except (EpochError, OSError):
            pass  # the connections are gone already


def _kombu_message(stored: StoredMessage) -> dict[str, Any] | None:
    """Return what a producer of kombu wrote; None if it was another program."""
    try:
        message = json.loads(stored.plain_body())
    except (ValueError, RecursionError, EpochError):
        return None
    match message:
        case {"body": str(), "headers": dict(), "properties": {"delivery_info": dict()}}:
            return dict(message)
    return None


def _is_expired(message: dict[str, Any], stored: StoredMessage) -> bool:
    """Return whether a message is older than its property `expiration` (milliseconds)."""
    limit = message["properties"].get("expiration")
    try:
        return limit is not None and time.time() * 1000 > stored.store_wall_ms + int(limit)
    except (TypeError, ValueError):
        return False  # another program's idea of an expiration


def _foreign(stored: StoredMessage) -> dict[str, Any]:
    """Return the message of another program: kombu's consumers get its bytes, and decide."""
    try:
        body = stored.plain_body()
    except EpochError:
        body = stored.body  # compressed in a way that cannot be read
    return {
        "body": base64.b64encode(body).decode(),
        "content-type": "application/data",
        "content-encoding": "binary",
        "headers": dict(stored.properties),
        "properties": {
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": stored.topic},
        },
    }


class EpochTransport(virtual.Transport):  # type: ignore[misc]
    """The transport `epochmq` of kombu."""

    Channel = EpochChannel
    default_port = PORT
    polling_interval = None
    driver_type = "epochmq"
    driver_name = "epochmq"
    can_parse_url = False
    implements: Implements = virtual.Transport.implements.extend(
        asynchronous=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )
    connection_errors: tuple[type[Exception], ...] = (
        *virtual.Transport.connection_errors,
        NotReachable,
        PeerError,
    )
    channel_errors: tuple[type[Exception], ...] = (*virtual.Transport.channel_errors, EpochError)

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        options = client.transport_options
        host, port = client.hostname or "127.0.0.1", client.port or PORT
        self._namesrv = options.get("namesrv") or f"{host}:{port}"
        self._credentials = (
            Credentials(client.userid, client.password or "") if client.userid else None
        )
        seconds = options.get("visibility_timeout", VISIBILITY_S)
        if not VISIBILITY_MIN_S <= seconds <= VISIBILITY_MAX_S:
            raise UsageError(
                f"visibility_timeout is {seconds}; from {VISIBILITY_MIN_S} to {VISIBILITY_MAX_S}"
                " seconds can be. A task may run longer: its message stays hidden meanwhile"
            )
        self.fanouts: dict[str, str] = {}
        """Exchange of each queue that is bound to a fanout exchange. It belongs to the transport,
        as the bindings do: kombu declares a binding in one channel only."""
        self.priorities: dict[str, int] = {}
        """Number of priorities of each queue that was declared with a maximum priority."""
        self.visibility_ms: int = int(seconds * 1000)
        self._queues_per_topic = int(options.get("queues_per_topic", QUEUES_PER_TOPIC))
        self._broker: BrokerLink | None = None
        self.arrived: threading.Event = threading.Event()
        """Set when a message was popped."""

    @property
    def broker(self) -> BrokerLink:
        """The connections, made on first use."""
        if self._broker is None:
            self._broker = BrokerLink(self._namesrv, self._queues_per_topic, self._credentials)
        return self._broker

    def driver_version(self) -> str:
        """Return the version of EpochMQ."""
        return __version__

    def establish_connection(self) -> Any:
        """Check that a name server answers, and return this transport."""
        self.broker.run(self.broker.open())
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        """Close all channels and connections."""
        super().close_connection(connection)
        broker, self._broker = self._broker, None
        if broker is not None and not broker.is_forked:
            broker.run(broker.close())

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver the next message; raises `socket.timeout` if none comes in time."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self.arrived.clear()
            try:
                self.cycle.get(self._deliver, timeout=timeout)
                return
            except queue.Empty:
                pass
            left = _WAIT_S if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.arrived.wait(min(left, _WAIT_S))
