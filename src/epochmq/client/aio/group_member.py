"""One member of a consumer group: its queues, pulls, offsets and queue locks."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from epochmq.base.errors import EpochError, NotFound, Refused, UsageError
from epochmq.client.aio.broker_calls import HOLD_MS, BrokerCalls, Pulled
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.listening import matching
from epochmq.client.aio.local_offsets import LocalOffsets
from epochmq.client.aio.member_locks import BROKER_LOCK_MS, MemberLocks
from epochmq.client.aio.pauses import Pauses
from epochmq.client.core import consumer_state
from epochmq.client.core.consumer_state import (
    CorruptMessage,
    Cursor,
    OffsetTable,
    ProcessQueue,
    PullStatus,
    StartPoint,
    difference,
    wanted,
)
from epochmq.model import property_names as names
from epochmq.model.allocate import Strategy
from epochmq.model.group import SubscriptionData, build
from epochmq.model.message import StoredMessage
from epochmq.model.names import is_retry_topic, retry_topic
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.group_bodies import ConsumerData, HeartbeatData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

CLUSTERING: Literal["CLUSTERING"] = "CLUSTERING"
BROADCASTING: Literal["BROADCASTING"] = "BROADCASTING"
REBALANCE_MS = 20_000
UNSETTLED_REBALANCE_MS = 1_000
"""Pause (ms) after a rebalance that failed, or while a topic does not exist yet."""
PERSIST_MS = 5_000
LOCK_MS = 20_000
LOCK_AGAIN_MS = 1_000
"""Pause after a renewal that failed. During a failover no lock is renewed, and a queue whose lock
was not renewed for 30 s is not consumed."""
FINISH_MS = 30_000
"""How long a queue that is given up waits, still locked, for its running listener. It is shorter
than the life of the lock, which was renewed at most `LOCK_MS` ago."""
DRAIN_MS = 5_000
CLOCKS_APART_MS = 10_000
"""How far the clocks of brokers and clients may differ before messages are skipped or repeated."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a member; see `PushConsumer`."""

    model: str
    ordered: bool
    start: StartPoint
    start_wall_ms: int
    batch_size: int
    pull_count: int
    max_reconsume_times: int
    offsets_dir: Path
    strategy: Strategy
    max_buffered_bytes: int
    max_buffered_messages: int

    def __post_init__(self) -> None:
        if self.model not in (CLUSTERING, BROADCASTING):
            raise UsageError(f"model is {self.model!r}; use {CLUSTERING} or {BROADCASTING}")
        if self.batch_size < 1 or self.pull_count < 1:
            raise UsageError("batch_size and pull_count must be 1 or more")
        if self.max_buffered_bytes < 1 or self.max_buffered_messages < 1:
            raise UsageError("max_buffered_bytes and max_buffered_messages must be 1 or more")


@dataclass(eq=False, slots=True)
class Owned:
    """A queue that this member owns now."""

    queue: MessageQueue
    cursor: Cursor
    window: ProcessQueue
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def progress(self) -> int:
        """The offset before which all messages are consumed."""
        offset = self.window.commit_offset
        return self.cursor.next_offset if offset is None else offset


class Consuming(Protocol):
    """How messages are passed to the listener: `Concurrent` or `Ordered`."""

    def start(self) -> None: ...

    def took(self, owned: Owned) -> None:
        """Note that the member owns a new queue; its pulls start after this call."""
        ...

    def arrived(self, owned: Owned) -> None:
        """Note that messages wait in `owned.window`."""
        ...

    async def drain(self) -> None:
        """Wait until no listener call is running."""
        ...


class GroupMember:
    """Joins the group, takes its share of the queues by rebalance, pulls, commits, and leaves."""

    def __init__(
        self, instance: Instance, calls: BrokerCalls, group: str, options: Options
    ) -> None:
        self.instance = instance
        self.calls = calls
        self.group = group
        self.options = options
        self.owned: dict[MessageQueue, Owned] = {}
        self.offsets: OffsetTable = OffsetTable()
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.local: LocalOffsets = LocalOffsets(options.offsets_dir, group)
        self._ends: dict[MessageQueue, int] = {}
        self._noted_wall_ms: dict[str, int] = {}
        self._rebalance_now = asyncio.Event()
        self._consuming: Consuming | None = None
        self._pauses = Pauses()
        self._locks = MemberLocks(calls, instance.clock)
        self._settled = asyncio.Event()
        self._waits_for_topic = False
        """Whether a subscribed topic did not exist at the last rebalance."""
        self.is_stopping: bool = False
        if self.is_clustering:
            self.subscriptions[retry_topic(group)] = build(retry_topic(group), "*")
        instance.beat_with(self._heartbeat)
        instance.handlers[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] = self._on_members_changed

    @property
    def is_clustering(self) -> bool:
        """Whether members share the queues. In BROADCASTING each member owns all queues."""
        return self.options.model == CLUSTERING

    @property
    def is_settled(self) -> bool:
        """Whether the last rebalance had no errors, so that this member owns its share."""
        return self._settled.is_set()

    async def wait_settled(self) -> None:
        """Wait until this member owns its share of the queues."""
        await self._settled.wait()

    @property
    def is_locking(self) -> bool:
        """Whether a queue is consumed only while the broker's lock is held."""
        return self.options.ordered and self.is_clustering

    async def subscribe(self, data: SubscriptionData) -> None:
        """Add or change a subscription, before or after the start."""
        self.subscriptions[data.topic] = data
        if self._consuming is not None:
            await self._refresh(data.topic)
            await self._note_start(data.topic)
            await self.instance.greet_all()
            self._rebalance_now.set()

    async def unsubscribe(self, topic: str) -> None:
        """Remove a subscription and give its queues back."""
        self.subscriptions.pop(topic, None)
        self._ends = {queue: end for queue, end in self._ends.items() if queue.topic != topic}
        for queue in [queue for queue in self.owned if queue.topic == topic]:
            await self.give(queue)
        await self.instance.greet_all()

    async def start(self, consuming: Consuming) -> None:
        """Fetch routes and ends of queues, send heartbeats, and start to rebalance."""
        for topic in list(self.subscriptions):
            await self._refresh(topic)
            await self._note_start(topic)
        self._consuming = consuming
        await self.instance.start()
        await self.instance.greet_all()
        consuming.start()
        spawn = self.instance.spawn
        spawn(self._rebalances(), "rebalance")
        spawn(self._persists(), "persist offsets")
        if self.is_locking:
            spawn(self._renews(), "renew locks")

    async def stop(self) -> None:
        """Stop pulling, wait for listeners (up to `DRAIN_MS`), commit, and give all queues back."""
        self.is_stopping = True
        if self._consuming is None:
            return
        for owned in self.owned.values():
            self._stop_pull(owned)
        try:
            async with asyncio.timeout(DRAIN_MS / 1_000):
                await self._consuming.drain()
        except TimeoutError:
            log.warning(
                "listeners of %(group)s did not finish in %(drain_ms)d ms",
                {"group": self.group, "drain_ms": DRAIN_MS},
            )
        for queue in list(self.owned):
            await self.give(queue)

    async def rebalance(self) -> bool:
        """Take and give back queues according to the members of the group. Return whether all
        succeeded.

        After an error the route of the topic is asked for again: a member that owns no queue yet
        makes no other call that would find out about a new master.
        """
        settled, waits_for_topic = True, False
        for topic in list(self.subscriptions):
            try:
                settled &= await self._rebalance_topic(topic)
            except NotFound:
                # The broker creates the retry topic after the first heartbeat. Other topics are
                # created by somebody's first send, whose receiver may be waiting here.
                waits_for_topic |= not is_retry_topic(topic)
            except EpochError as error:
                log.info(
                    "rebalance of %(topic)s skipped: %(error)s", {"topic": topic, "error": error}
                )
                settled = False
                await self.instance.refresh_after_error(topic)
        self._waits_for_topic = waits_for_topic
        if self.is_locking:
            settled &= await self._locks.unlock_all_but(self.owned)
        return settled

    async def give(self, queue: MessageQueue) -> None:
        """Stop consuming `queue`, commit its offset and unlock it."""
        owned = self.owned.pop(queue, None)
        if owned is None:
            return
        owned.window.dropped = True
        self._stop_pull(owned)
        if self.is_locking:
            await self._finished(owned)
        for task in owned.tasks:
            task.cancel()
        self.note_progress(owned)
        await self._persist(self.offsets.pop_unsaved(queue))
        self.offsets.drop(queue)
        if self.is_locking:
            await self._locks.unlock(queue)

    async def _finished(self, owned: Owned) -> None:
        """Wait for the running listener of the queue; else the next member would get its message as
        well.
        """
        owned.arrived.set()  # wakes a waiting worker, which then ends
        workers = [task for task in owned.tasks if not task.get_name().startswith("pull ")]
        if workers:
            _, late = await asyncio.wait(workers, timeout=FINISH_MS / 1_000)
            if late:
                log.warning(
                    "a listener of %(group)s holds %(queue)s for too long",
                    {"group": self.group, "queue": owned.queue},
                )

    def lose(self, queue: MessageQueue) -> None:
        """Drop `queue` after its lock was lost.

        Nothing is committed, because another member may have consumed further. A running listener
        is cancelled. The next rebalance takes the queue again when its lock is free, at the offset
        that is committed then.
        """
        owned = self.owned.pop(queue, None)
        if owned is None:
            return
        log.warning("%(group)s lost the lock of %(queue)s", {"group": self.group, "queue": queue})
        owned.window.dropped = True
        for task in owned.tasks:
            task.cancel()
        self.offsets.drop(queue)
        self._rebalance_now.set()

    def note_progress(self, owned: Owned) -> None:
        """Note the offset of `owned` that may be committed."""
        offset = owned.window.commit_offset
        if offset is not None:
            self.offsets.advance(owned.queue, offset)

    def assignment(self) -> tuple[MessageQueue, ...]:
        """Return the queues of this member, without those of the retry topic."""
        return tuple(sorted(queue for queue in self.owned if not is_retry_topic(queue.topic)))

    def pause(self, queues: Iterable[MessageQueue] | None) -> None:
        """Pull no more from `queues` until `resume`; None means all, also those of later."""
        self._pauses.pause(queues)

    def resume(self, queues: Iterable[MessageQueue] | None) -> None:
        """Pull from `queues` again; None means all."""
        self._pauses.resume(queues)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Commit `offset`, drop the messages of `queue` that wait, and go on there."""
        if queue not in self.owned:
            raise UsageError(f"this consumer does not own {queue} now; see `assignment`")
        if self.is_clustering:
            await self.calls.commit(queue, offset)
        await self.restart_at(queue, offset)

    async def restart_at(self, queue: MessageQueue, offset: int) -> None:
        """Drop the messages of `queue` and continue at `offset`, after an operator reset it."""
        owned = self.owned.pop(queue, None)
        if owned is None:
            return
        owned.window.dropped = True
        for task in owned.tasks:
            task.cancel()
        self.offsets.reset(queue, offset)
        await self._persist(self.offsets.pop_unsaved(queue))
        self._rebalance_now.set()

    def _heartbeat(self) -> HeartbeatData:
        consumer = ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model=self.options.model,
            consume_from_where=self.options.start.value,
            subscription_data_set=list(self.subscriptions.values()),
            unit_mode=False,
        )
        return HeartbeatData(client_id=self.instance.client_id, consumer_data_set=[consumer])

    def _on_members_changed(self, command: Command, session: Session) -> Reply | None:
        self._rebalance_now.set()
        return None

    async def _refresh(self, topic: str) -> None:
        try:
            await self.instance.refresh(topic)
        except NotFound:
            log.info("topic %(topic)s does not exist yet", {"topic": topic})

    async def _note_start(self, topic: str) -> None:
        """Note where the queues of `topic` end: a new group with start "last" begins there.

        Queues are taken later, after a rebalance. Messages sent until then are not skipped.
        """
        if self.options.start is not StartPoint.LAST or is_retry_topic(topic):
            return
        self._noted_wall_ms[topic] = self.instance.clock.wall_ms()
        queues = self.instance.routes.subscribe(topic)
        await asyncio.gather(*(self._note_end(queue) for queue in queues))

    async def _note_end(self, queue: MessageQueue) -> None:
        try:
            self._ends.setdefault(queue, await self.calls.max_offset(queue))
        except EpochError as error:
            log.info(
                "the end of %(queue)s is not known at the start: %(error)s",
                {"queue": queue, "error": error},
            )

    async def _rebalances(self) -> None:
        while not self.is_stopping:
            self._rebalance_now.clear()
            if await self.rebalance():
                self._settled.set()
            else:
                self._settled.clear()
            is_done = self.is_settled and not self._waits_for_topic
            pause_ms = REBALANCE_MS if is_done else UNSETTLED_REBALANCE_MS
            try:
                # Not wait_for: before Python 3.12 it ignores a cancellation that meets the event.
                async with asyncio.timeout(pause_ms / 1_000):
                    await self._rebalance_now.wait()
            except TimeoutError:
                continue

    async def _rebalance_topic(self, topic: str) -> bool:
        await self.instance.ensure_route(topic)
        queues = self.instance.routes.subscribe(topic)
        share, listed = tuple(queues), True
        if self.is_clustering:
            members = await self._members(topic)
            listed = self.instance.client_id in members
            share = wanted(self.options.strategy, queues, members, self.instance.client_id)
        change = difference([queue for queue in self.owned if queue.topic == topic], share)
        await asyncio.gather(*(self.give(queue) for queue in change.give))
        taken = [await self._start_queue(queue) for queue in change.take]
        return listed and all(taken)

    async def _members(self, topic: str) -> list[str]:
        """Return the ids of the members of the group.

        A broker that does not list this member was restarted, or lost the connection after the last
        heartbeat. Then a heartbeat is sent first; otherwise this member would own nothing until the
        next one.
        """
        try:
            members = await self.calls.members(topic)
        except Refused:
            members = []  # the broker knows no member of the group
        if self.instance.client_id in members:
            return members
        await self.instance.greet_all()
        return await self.calls.members(topic)

    async def _start_queue(self, queue: MessageQueue) -> bool:
        ordered = self.is_locking
        locked_at = self.instance.clock.now_ms()
        if ordered and queue not in await self._locks.lock(queue.broker_name, [queue]):
            return False
        offset = await self._start_offset(queue)
        if self.is_stopping or self._consuming is None or not self._is_wanted(queue):
            return False
        if queue.topic not in self.subscriptions:
            return True  # the topic was unsubscribed in the meantime
        options = self.options
        window = ProcessQueue(options.max_buffered_bytes, options.max_buffered_messages)
        owned = Owned(queue, Cursor(offset), window)
        owned.window.locked_at_ms = locked_at if ordered else None
        self.owned[queue] = owned
        self._consuming.took(owned)
        owned.tasks.append(self.instance.spawn(self._pulls(owned), f"pull {queue}"))
        return True

    def _is_wanted(self, queue: MessageQueue) -> bool:
        """Whether the queue is still wanted: the user may have unsubscribed during the calls
        before.
        """
        return queue.topic in self.subscriptions and queue not in self.owned

    async def _start_offset(self, queue: MessageQueue) -> int:
        if not self.is_clustering:
            known = self.local.get(queue)
        else:
            known = await self.calls.committed(queue)
        if known is not None:
            self.offsets.loaded(queue, known)
            return known
        if is_retry_topic(queue.topic) or self.options.start is StartPoint.FIRST:
            return 0
        if self.options.start is not StartPoint.LAST:
            return await self.calls.offset_at(queue, self.options.start_wall_ms)
        end = self._ends.get(queue)
        if end is not None:
            return end
        # The queue was created after the start, or its broker was not reachable then. It may hold
        # messages from before the start.
        noted_wall_ms = self._noted_wall_ms.get(queue.topic, self.instance.clock.wall_ms())
        return await self.calls.offset_at(queue, noted_wall_ms - CLOCKS_APART_MS)

    async def _pulls(self, owned: Owned) -> None:
        failures = 0
        while not owned.window.dropped and owned.queue.topic in self.subscriptions:
            try:
                await self._pull_once(owned)
                failures = 0
            except EpochError as error:
                failures += 1
                if isinstance(error, CorruptMessage):
                    owned.cursor.broker_id = error.broker_id + 1  # another replica, else the master
                    level = logging.ERROR if failures == 1 else logging.INFO
                    log.log(level, "pull of %s: %s; asking again", owned.queue, error)
                else:
                    log.info(
                        "cannot pull from %(queue)s: %(error)s",
                        {"queue": owned.queue, "error": error},
                    )
                await self.instance.wait_after_error(owned.queue.topic, failures)

    async def _pull_once(self, owned: Owned) -> None:
        window, cursor = owned.window, owned.cursor
        if window.is_full():
            await asyncio.sleep(consumer_state.FULL_PAUSE_MS / 1_000)
            return
        if self._needs_lock(owned):
            await asyncio.sleep(consumer_state.FULL_PAUSE_MS / 1_000)
            return
        if self._pauses.holds(owned.queue):
            await self._pauses.wait(owned.queue)
            return
        data = self.subscriptions[owned.queue.topic]
        pulled = await self.calls.pull(
            owned.queue,
            cursor.next_offset,
            min(self.options.pull_count, self.options.max_buffered_messages),
            data,
            hold_ms=HOLD_MS,
            broker_id=cursor.broker_id,
            commit=self.offsets.get(owned.queue) if self.is_clustering else None,
        )
        if not window.dropped:
            self._pulled(owned, data, pulled)

    def _needs_lock(self, owned: Owned) -> bool:
        if not self.is_locking:
            return False
        return not owned.window.is_locked(self.instance.clock.now_ms())

    def _pulled(self, owned: Owned, data: SubscriptionData, pulled: Pulled) -> None:
        messages = matching(data, pulled.messages)
        if is_retry_topic(owned.queue.topic):
            for message in messages:
                restore_topic(message, self.group)
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "offset %(offset)d of %(queue)s is outside the queue; going on at %(new_offset)d",
                {
                    "offset": owned.cursor.next_offset,
                    "queue": owned.queue,
                    "new_offset": pulled.next_offset,
                },
            )
        owned.cursor.found(pulled.next_offset, pulled.suggested_broker_id)
        owned.window.put(messages, pulled.next_offset)
        self.note_progress(owned)
        if messages and self._consuming is not None:
            self._consuming.arrived(owned)

    def _stop_pull(self, owned: Owned) -> None:
        for task in owned.tasks:
            if task.get_name().startswith("pull "):
                task.cancel()

    async def _persists(self) -> None:
        while True:
            await asyncio.sleep(PERSIST_MS / 1_000)
            for topic in await self._persist(self.offsets.pop_unsaved()):
                await self.instance.refresh_after_error(topic)

    async def _persist(self, unsaved: dict[MessageQueue, int]) -> set[str]:
        """Commit the offsets; return the topics of those that could not be committed."""
        if not self.is_clustering:
            self.local.save(unsaved)
            return set()
        failed: set[str] = set()
        for queue, offset in unsaved.items():
            try:
                await self.calls.commit(queue, offset)
            except EpochError as error:
                log.info(
                    "cannot commit offsets of %(queue)s: %(error)s",
                    {"queue": queue, "error": error},
                )
                self.offsets.not_saved(queue, offset)
                failed.add(queue.topic)
        return failed

    async def _renews(self) -> None:
        pause_ms = LOCK_MS
        while True:
            await asyncio.sleep(pause_ms / 1_000)
            by_broker: dict[str, list[MessageQueue]] = {}
            for queue in self.owned:
                by_broker.setdefault(queue.broker_name, []).append(queue)
            renewed = [await self._renew(name, queues) for name, queues in by_broker.items()]
            pause_ms = LOCK_MS if all(renewed) else LOCK_AGAIN_MS

    async def _renew(self, broker_name: str, queues: list[MessageQueue]) -> bool:
        """Renew the locks of `queues`. Return whether the broker answered."""
        asked_at = self.instance.clock.now_ms()
        try:
            held = await self._locks.lock(broker_name, queues)
        except EpochError as error:
            log.info(
                "cannot lock queues at %(broker_name)s: %(error)s",
                {"broker_name": broker_name, "error": error},
            )
            for topic in {queue.topic for queue in queues}:
                await self.instance.refresh_after_error(topic)
            return False
        now = self.instance.clock.now_ms()
        for queue in queues:
            owned = self.owned.get(queue)
            if owned is None:
                if queue in held:  # given back in the meantime: the rebalance unlocks it
                    self._rebalance_now.set()
            elif queue not in held or not owned.window.was_locked_since(now - BROKER_LOCK_MS):
                self.lose(queue)
            else:
                owned.window.locked_at_ms = asked_at
        return True


def restore_topic(message: StoredMessage, group: str) -> None:
    """Set the topic of a message from the group's retry topic to the topic it was sent to."""
    origin = message.properties.get(names.RETRY_TOPIC)
    if origin and message.topic == retry_topic(group):
        message.topic = origin
