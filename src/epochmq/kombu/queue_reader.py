"""Reads one kombu queue by POP, and keeps unacknowledged messages invisible.

A queue with priorities has one queue of its topic for each priority. The reader asks the queue of
the highest priority first; messages that are delivered again do not wait behind any priority.

All methods run on the event loop of the blocking clients. An unacknowledged message stays hidden
from other consumers: its invisible time is renewed until it is acknowledged or given back. When
the process dies, the message is delivered again after the rest of that time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from epochmq.base.errors import EpochError, NotFound, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.core.consumer_state import StartPoint
from epochmq.client.core.pop_state import GIVE_BACK_MS, NORMAL, PopHandle, handle_of
from epochmq.model.group import build
from epochmq.model.message import StoredMessage
from epochmq.model.topic import ANY_QUEUE, MessageQueue
from epochmq.wire.bodies.group_bodies import ConsumerData, HeartbeatData

log = logging.getLogger(__name__)

POP_COUNT_MAX = 32
POLL_MS = 500
"""How long a pop waits for messages; a reader needs as long to stop."""
ROUTE_REFRESH_S = 5.0
"""How often the brokers of a topic are looked up."""
KEEP_S = 1.0
"""How long a message that was asked for and requeued waits here to be asked for again."""
PAUSE_S = 1.0
"""Pause after a pop that failed."""


@dataclass(eq=False, slots=True)
class UnackedMessage:
    """A message that was popped and is not acknowledged."""

    message: StoredMessage
    handle: PopHandle
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while its invisible time is changed, because that replaces the handle."""


class QueueReader:
    """Pops the messages of one topic for one consumer group.

    Args:
        instance: connections and routes.
        topic: the topic.
        group: the consumer group.
        start: where a new group begins.
        invisible_ms: how long a popped message is hidden; renewed until it is acknowledged.
        room: returns how many more messages are wanted now.
        offer: gets each popped message.
        priorities: number of priorities; priority n is queue n of the topic on each broker. With 1
            the queue of a message says nothing.
    """

    def __init__(
        self,
        instance: Instance,
        topic: str,
        group: str,
        *,
        start: StartPoint,
        invisible_ms: int,
        room: Callable[[], int],
        offer: Callable[[UnackedMessage], None],
        priorities: int = 1,
    ) -> None:
        self.topic = topic
        self.group = group
        self._instance = instance
        self._calls = PopCalls(instance, group)
        self._data = build(topic, "*")
        self._start = start
        self._invisible_ms = invisible_ms
        self._room = room
        self._offer = offer
        self._queue_ids = range(priorities - 1, -1, -1) if priorities > 1 else (ANY_QUEUE,)
        """Queues to ask, the most urgent first."""
        self._unacked: set[UnackedMessage] = set()
        self._kept: deque[UnackedMessage] = deque()
        """Requeued messages, which `get` returns, or which are offered again at the next start."""
        self._asked = 0
        """Messages that pops under way may bring."""
        self._has_room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._brokers_task: asyncio.Task[None] | None = None
        self._renewals: asyncio.Task[None] | None = None
        self._pops: dict[str, asyncio.Task[None]] = {}
        """The task that pops, by broker."""
        instance.beat_with(self._heartbeat)

    def start(self) -> None:
        """Begin to pop; `offer` gets the messages. A stopped reader may be started again."""
        self._stopping.clear()
        self._brokers_task = self._instance.spawn(self._follow_brokers(), f"read {self.topic}")

    def wake(self) -> None:
        """Note that there may be room for more messages."""
        self._has_room.set()

    async def stop(self) -> None:
        """Pop no more; a message that a pop under way brings is given back.

        Unacknowledged messages stay hidden from other consumers, until they are given back too.
        """
        self._stopping.set()
        self._has_room.set()
        if self._brokers_task is not None:
            self._brokers_task.cancel()
        pops, self._pops = self._pops, {}
        await asyncio.gather(*pops.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop, and close the connections; unacknowledged messages are delivered again later."""
        await self.stop()
        kept = [self._kept.popleft() for _ in range(len(self._kept))]
        await asyncio.gather(*(self.give_back(unacked) for unacked in kept))
        await self._instance.close(consumer=self.group)

    async def ack(self, unacked: UnackedMessage) -> None:
        """Acknowledge a message; raises `NotReachable` if that is not certain."""
        self._unacked.discard(unacked)
        self.wake()
        try:
            async with unacked.changing:
                await self._calls.ack(self.topic, unacked.handle)
        except Refused as error:
            log.warning(
                "message %(msg_id)s of %(topic)s could not be acknowledged: %(error)s",
                {"msg_id": unacked.message.msg_id, "topic": self.topic, "error": error},
            )

    async def give_back(self, unacked: UnackedMessage) -> None:
        """Let the message be delivered again soon."""
        self._unacked.discard(unacked)
        self.wake()
        try:
            async with unacked.changing:
                await self._calls.change_invisible(self.topic, unacked.handle, GIVE_BACK_MS)
        except EpochError as error:
            log.info(
                "message %(msg_id)s of %(topic)s comes again later: %(error)s",
                {"msg_id": unacked.message.msg_id, "topic": self.topic, "error": error},
            )

    async def keep_for_get(self, unacked: UnackedMessage) -> None:
        """Deliver the message again from here at the next `get` or `start`, if there is one soon.

        Otherwise it is given back.
        """
        unacked.message.reconsume_times += 1
        self._kept.append(unacked)

        async def give_back_later() -> None:
            await asyncio.sleep(KEEP_S)
            if unacked in self._kept:
                self._kept.remove(unacked)
                await self.give_back(unacked)

        self._instance.spawn(give_back_later(), f"keep {self.topic}")

    async def get(self) -> UnackedMessage | None:
        """Return one message that is there now; None if there is none."""
        brokers = None
        for queue_id in self._queue_ids:
            if kept := self._pop_kept(queue_id, 1):
                return kept[0]
            brokers = await self._brokers() if brokers is None else brokers
            for broker in brokers:
                async with self._instance.routed(self.topic):
                    popped = await self._pop_level(broker, 1, queue_id)
                if popped:
                    return popped[0]
        return None

    async def purge(self) -> int:
        """Acknowledge everything that is there now; return the number of messages."""
        purged = 0
        for broker in await self._brokers():
            async with self._instance.routed(self.topic):
                while popped := await self._pop(broker, POP_COUNT_MAX, ANY_QUEUE, poll_ms=0):
                    handles = [unacked.handle for unacked in popped]
                    self._unacked.difference_update(popped)
                    await self._calls.ack_all(self.topic, broker, handles)
                    purged += len(popped)
        return purged

    async def _brokers(self) -> list[str]:
        try:
            await self._instance.ensure_route(self.topic)
        except NotFound:
            return []
        queues = self._instance.routes.subscribe(self.topic)
        return list(dict.fromkeys(queue.broker_name for queue in queues))

    async def _follow_brokers(self) -> None:
        while True:
            try:
                for broker in await self._brokers():
                    if broker not in self._pops:
                        work = self._pop_forever(broker)
                        self._pops[broker] = self._instance.spawn(work, f"pop {broker}")
                await self._instance.greet_all()
            except EpochError as error:
                log.info(
                    "brokers of %(topic)s are not known now: %(error)s",
                    {"topic": self.topic, "error": error},
                )
            await asyncio.sleep(ROUTE_REFRESH_S)

    async def _pop_forever(self, broker: str) -> None:
        while not self._stopping.is_set():
            count = min(self._room() - self._asked, POP_COUNT_MAX)
            if count <= 0:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            self._asked += count
            try:
                await self._pop_by_priority(broker, count)
            except EpochError as error:
                log.info(
                    "cannot read %(topic)s at %(broker)s: %(error)s",
                    {"topic": self.topic, "broker": broker, "error": error},
                )
                await asyncio.sleep(PAUSE_S)
                await self._instance.refresh_after_error(self.topic)
                continue
            finally:
                self._asked -= count

    async def _pop_by_priority(self, broker: str, count: int) -> None:
        """Offer up to `count` messages, the most urgent first; wait for one if there is none."""
        left = count
        for queue_id in self._queue_ids:
            left -= await self._offer_all(self._pop_kept(queue_id, left))
            if left and queue_id != ANY_QUEUE:
                left -= await self._offer_all(await self._pop_level(broker, left, queue_id))
        if left == count:
            # With priorities one message only: others that came with it may be more urgent.
            several = count if self._queue_ids[0] == ANY_QUEUE else 1
            popped = await self._pop(broker, several, ANY_QUEUE, poll_ms=POLL_MS)
            await self._offer_all(popped)

    async def _pop_level(self, broker: str, count: int, queue_id: int) -> list[UnackedMessage]:
        """Pop without waiting; a broker with fewer queues has nothing of this priority."""
        queues = self._instance.routes.subscribe(self.topic)
        if queue_id != ANY_QUEUE and MessageQueue(self.topic, broker, queue_id) not in queues:
            return []
        return await self._pop(broker, count, queue_id, poll_ms=0)

    async def _offer_all(self, popped: list[UnackedMessage]) -> int:
        """Offer messages, or give them back if this reader stops; return their number."""
        for unacked in popped:
            if self._stopping.is_set():
                await self.give_back(unacked)
            else:
                self._offer(unacked)
        return len(popped)

    def _pop_kept(self, queue_id: int, count: int) -> list[UnackedMessage]:
        """Remove and return up to `count` requeued messages of a priority."""
        found = [
            unacked
            for unacked in self._kept
            if queue_id in (ANY_QUEUE, self._priority(unacked.handle))
        ][:count]
        for unacked in found:
            self._kept.remove(unacked)
        return found

    def _priority(self, handle: PopHandle) -> int:
        """Return the priority of a message; the highest for one that is delivered again."""
        return handle.queue_id if handle.mark == NORMAL else self._queue_ids[0]

    async def _pop(
        self, broker: str, count: int, queue_id: int, *, poll_ms: int
    ) -> list[UnackedMessage]:
        popped = await self._calls.pop(
            MessageQueue(self.topic, broker, queue_id),
            count,
            self._data,
            invisible_ms=self._invisible_ms,
            start=self._start,
            poll_ms=poll_ms,
        )
        unacked = [UnackedMessage(message, handle_of(message)) for message in popped.messages]
        self._unacked.update(unacked)
        if unacked and self._renewals is None:
            self._renewals = self._instance.spawn(self._renew(), f"renew {self.topic}")
        return unacked

    async def _renew(self) -> None:
        """Hide unacknowledged messages for longer, before their invisible time ends."""
        while True:
            await asyncio.sleep(self._invisible_ms / 3_000)
            await asyncio.gather(*(self._renew_one(unacked) for unacked in list(self._unacked)))

    async def _renew_one(self, unacked: UnackedMessage) -> None:
        try:
            async with unacked.changing:
                if unacked in self._unacked:
                    unacked.handle = await self._calls.change_invisible(
                        self.topic, unacked.handle, self._invisible_ms
                    )
        except Refused as error:
            self._unacked.discard(unacked)
            log.warning(
                "message %(msg_id)s of %(topic)s may be delivered again: %(error)s",
                {"msg_id": unacked.message.msg_id, "topic": self.topic, "error": error},
            )
        except EpochError as error:
            log.info(
                "cannot renew a message of %(topic)s now: %(error)s",
                {"topic": self.topic, "error": error},
            )

    def _heartbeat(self) -> HeartbeatData:
        consumer = ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where=self._start.value,
            subscription_data_set=[self._data],
            unit_mode=False,
        )
        return HeartbeatData(client_id=self._instance.client_id, consumer_data_set=[consumer])
