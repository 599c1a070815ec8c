"""One member of a group that consumes by POP: its assignment and its pops.

A broker assigns queues to members (400), and may assign one queue to several members: a popped
message is invisible to all others for its invisible time. So offsets are not committed, and nothing
is given back when an assignment changes.

A broker adds retries of popped messages to the pops of the topic. Retries from members that pull,
or from the time before the group used POP, are in the retry topic %RETRY%group. The member pops the
queues of that topic that are assigned to it, as RocketMQ's client pulls them.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Protocol

from epochmq.base.errors import EpochError, NotFound, Refused, UsageError
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.listening import wants
from epochmq.client.aio.pauses import Pauses
from epochmq.client.aio.pop_calls import PopCalls, Popped
from epochmq.client.core import pop_state
from epochmq.client.core.consumer_state import StartPoint, difference
from epochmq.client.core.pop_state import PopHandle, PopStatus, handle_of
from epochmq.model import property_names as names
from epochmq.model.group import SubscriptionData, build
from epochmq.model.message import StoredMessage
from epochmq.model.names import retry_topic
from epochmq.model.topic import ANY_QUEUE, MessageQueue
from epochmq.wire.bodies.group_bodies import ConsumerData, HeartbeatData
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

REBALANCE_MS = 20_000
UNSETTLED_REBALANCE_MS = 1_000
FIRST_POPS_MS = 3_000
"""How long `start` waits for the first pops: with the first pop a broker notes where a new group
begins."""


@dataclass(frozen=True, slots=True)
class PopOptions:
    """The settings of a member; see `PopConsumer`."""

    ordered: bool
    start: StartPoint
    pop_count: int
    invisible_ms: int
    in_flight_max: int
    poll_ms: int
    max_reconsume_times: int
    strategy: str

    def __post_init__(self) -> None:
        low, high = pop_state.INVISIBLE_MS_MIN, pop_state.INVISIBLE_MS_MAX
        if not low <= self.invisible_ms <= high:
            raise UsageError(f"invisible_ms is {self.invisible_ms}; from {low} to {high} can be")
        if not 1 <= self.pop_count <= pop_state.POP_COUNT:
            raise UsageError(f"pop_count is {self.pop_count}; from 1 to {pop_state.POP_COUNT}")
        if self.in_flight_max < 1:
            raise UsageError("in_flight_max must be 1 or more")


@dataclass(eq=False, slots=True)
class HeldMessage:
    """A popped message of this member; others may get it from `until_ms` (monotonic) on."""

    message: StoredMessage
    handle: PopHandle
    until_ms: int
    share: "Share"

    @property
    def topic(self) -> str:
        """The topic that was popped; the message shows the topic that it was sent to."""
        return self.share.queue.topic


@dataclass(eq=False, slots=True)
class Share:
    """The state of one pop loop: a queue, or all queues of a broker (queue id -1)."""

    queue: MessageQueue
    in_flight: int = 0
    has_room: asyncio.Event = field(default_factory=asyncio.Event)
    popping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first pop is sent."""
    dropped: bool = False
    """The queue is not assigned any more. Messages of a pop that is still running are handled."""
    was_empty: bool = False
    """Whether the last pop found nothing."""
    poll_ms_max: int | None = None
    """Longest poll time of the next pop, or None. After messages were hidden they are visible by
    then, and a broker may not end the poll for them."""
    attempt: str | None = None
    """Id of an ordered pop without an answer, so that the next pop can get the same
    messages again."""

    def let_go(self) -> None:
        """Count one message less in flight."""
        self.in_flight -= 1
        self.has_room.set()


class Handling(Protocol):
    """How messages are passed to the listener: `PopConcurrent` or `PopOrdered`."""

    def start(self) -> None: ...

    async def popped(self, taken: list[HeldMessage]) -> None:
        """Take the messages of one pop; the next pop starts when this call returns."""
        ...

    async def drain(self) -> None:
        """Wait until no listener call is running and the brokers know all results."""
        ...


class PopMember:
    """Joins the group, asks a broker for its assignment, pops, and leaves."""

    def __init__(
        self, instance: Instance, calls: PopCalls, group: str, options: PopOptions
    ) -> None:
        self.instance = instance
        self.calls = calls
        self.group = group
        self.options = options
        self.shares: dict[MessageQueue, Share] = {}
        self._retries = retry_topic(group)
        self.subscriptions: dict[str, SubscriptionData] = {self._retries: build(self._retries, "*")}
        self._knows_retries = False
        self.is_stopping: bool = False
        self._settled = asyncio.Event()
        self._pauses = Pauses()
        self._share_now = asyncio.Event()
        self._asked_once = asyncio.Event()
        self._handling: Handling | None = None
        instance.beat_with(self._heartbeat)
        instance.handlers[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] = self._on_members_changed

    @property
    def is_settled(self) -> bool:
        """Whether the last request for the assignment of each topic had no errors."""
        return self._settled.is_set()

    async def wait_settled(self) -> None:
        """Wait until this member has its share."""
        await self._settled.wait()

    def pause(self) -> None:
        """Start no more pops until `resume`."""
        self._pauses.pause(None)

    def resume(self) -> None:
        """Pop again."""
        self._pauses.resume(None)

    async def subscribe(self, data: SubscriptionData) -> None:
        """Add or change a subscription, before or after the start."""
        self.subscriptions[data.topic] = data
        if self._handling is not None:
            await self._refresh(data.topic)
            await self.instance.greet_all()
            self._share_now.set()

    async def unsubscribe(self, topic: str) -> None:
        """Remove a subscription and pop no more of its queues."""
        self.subscriptions.pop(topic, None)
        for queue in [queue for queue in self.shares if queue.topic == topic]:
            self._give(queue)
        await self.instance.greet_all()

    async def start(self, handling: Handling) -> None:
        """Fetch routes, send heartbeats, and start to pop.

        It returns when the brokers received the first pops, or after `FIRST_POPS_MS`. A new group
        that starts at the end begins there, so messages sent later are not skipped.
        """
        for topic in self.subscriptions:
            await self._refresh(topic)
        self._handling = handling
        await self.instance.start()
        await self.instance.greet_all()
        handling.start()
        self.instance.spawn(self._rounds(), "shares")
        try:
            async with asyncio.timeout(FIRST_POPS_MS / 1_000):
                await self._asked_once.wait()
                for share in list(self.shares.values()):
                    await share.popping.wait()
                await self.instance.greet_all()  # its answer shows that the pops have arrived
        except TimeoutError:
            log.info("brokers of %(group)s do not have all first pops yet", {"group": self.group})

    async def stop(self) -> None:
        """Stop calling listeners, wait for running ones, and report their results to the brokers.

        It waits at most for the invisible time, after which others have the messages. Running pops
        are ended last, so that their messages are given back at once.
        """
        self.is_stopping = True
        if self._handling is None:
            return
        try:
            async with asyncio.timeout(self.options.invisible_ms / 1_000):
                await self._handling.drain()
        except TimeoutError:
            log.warning("listeners of %(group)s did not finish in time", {"group": self.group})
        for queue in list(self.shares):
            self._give(queue)

    async def round(self) -> bool:
        """Ask for the assignment of each topic. Return whether all requests succeeded.

        The group's retry topic does not count: it may have no route until the first member joins.
        """
        settled = True
        for topic in list(self.subscriptions):
            try:
                went_well = await self._share_topic(topic)
            except EpochError as error:
                log.info(
                    "cannot get the assignment of %(topic)s: %(error)s",
                    {"topic": topic, "error": error},
                )
                went_well = False
                await self.instance.refresh_after_error(topic)
            if topic == self._retries:
                self._knows_retries = went_well
            else:
                settled &= went_well
        return settled

    def _heartbeat(self) -> HeartbeatData:
        consumer = ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where=self.options.start.value,
            subscription_data_set=list(self.subscriptions.values()),
            unit_mode=False,
        )
        return HeartbeatData(client_id=self.instance.client_id, consumer_data_set=[consumer])

    def _on_members_changed(self, command: Command, session: Session) -> Reply | None:
        self._share_now.set()
        return None

    async def _refresh(self, topic: str) -> None:
        try:
            await self.instance.refresh(topic)
        except NotFound:
            log.info("topic %(topic)s does not exist yet", {"topic": topic})

    async def _rounds(self) -> None:
        while not self.is_stopping:
            self._share_now.clear()
            if await self.round():
                self._settled.set()
            else:
                self._settled.clear()
            self._asked_once.set()
            is_done = self.is_settled and self._knows_retries
            pause_ms = REBALANCE_MS if is_done else UNSETTLED_REBALANCE_MS
            try:
                async with asyncio.timeout(pause_ms / 1_000):
                    await self._share_now.wait()
            except TimeoutError:
                continue

    async def _share_topic(self, topic: str) -> bool:
        await self.instance.ensure_route(topic)
        share = await self._asked(topic)
        if share is None:
            return False  # the broker cannot tell now: the present assignment stays
        if self.is_stopping or topic not in self.subscriptions:
            return True
        change = difference([queue for queue in self.shares if queue.topic == topic], share)
        for queue in change.give:
            self._give(queue)
        for queue in change.take:
            self._start_queue(queue)
        return True

    async def _asked(self, topic: str) -> list[MessageQueue] | None:
        """Return the assignment. If the broker makes none, return all queues, which POP allows."""
        try:
            told = await self.calls.assignment(topic, self.options.strategy)
        except Refused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            brokers = {queue.broker_name for queue in self.instance.routes.subscribe(topic)}
            return [MessageQueue(topic, name, ANY_QUEUE) for name in brokers]
        return None if told is None else [row.message_queue for row in told]

    def _start_queue(self, queue: MessageQueue) -> None:
        share = self.shares[queue] = Share(queue)
        self.instance.spawn(self._pops(share), f"pop {queue}")

    def _give(self, queue: MessageQueue) -> None:
        share = self.shares.pop(queue, None)
        if share is not None:
            share.dropped = True

    async def _pops(self, share: Share) -> None:
        failures = 0
        while not (share.dropped or self.is_stopping):
            try:
                await self._pop_once(share)
                failures = 0
            except EpochError as error:
                failures += 1
                log.info(
                    "cannot pop from %(queue)s: %(error)s", {"queue": share.queue, "error": error}
                )
                await self.instance.wait_after_error(share.queue.topic, failures)
                self._share_now.set()

    async def _pop_once(self, share: Share) -> None:
        options = self.options
        if self._pauses.holds(share.queue):
            share.popping.set()  # `start` does not wait for a pop that a pause holds
            await self._pauses.wait(share.queue)
            return
        while share.in_flight >= options.in_flight_max:
            share.has_room.clear()
            await share.has_room.wait()
        data = self.subscriptions.get(share.queue.topic)
        if data is None or share.dropped:
            return
        poll_ms = min(options.poll_ms, share.poll_ms_max or options.poll_ms)
        share.poll_ms_max = None
        if options.ordered:
            share.attempt = share.attempt or self.instance.uniq_ids.next()
        share.popping.set()
        popped = await self.calls.pop(
            share.queue,
            min(options.pop_count, options.in_flight_max - share.in_flight),
            data,
            invisible_ms=options.invisible_ms,
            start=options.start,
            ordered=options.ordered,
            attempt_id=share.attempt,
            poll_ms=poll_ms,
        )
        share.attempt = None
        share.was_empty = not popped.messages
        if popped.status is PopStatus.POLLING_FULL:
            await asyncio.sleep(pop_state.FULL_PAUSE_MS / 1_000)
        elif data.topic not in self.subscriptions:
            await self._give_back(data.topic, popped.messages)
        elif popped.messages and self._handling is not None:
            await self._handling.popped(await self._sorted(share, data, popped))

    async def _give_back(self, topic: str, messages: list[StoredMessage]) -> None:
        """Make popped messages visible again soon, because their topic is not
        subscribed any more.
        """
        for message in messages:
            try:
                handle = handle_of(message)
                await self.calls.change_invisible(topic, handle, pop_state.GIVE_BACK_MS)
            except EpochError as error:
                log.info(
                    "cannot return %(msg_id)s to the queue: %(error)s",
                    {"msg_id": message.msg_id, "error": error},
                )

    async def _sorted(
        self, share: Share, data: SubscriptionData, popped: Popped
    ) -> list[HeldMessage]:
        """Return the messages to handle; acknowledge those that the subscription does not want."""
        until_ms = self.instance.clock.now_ms() + self.options.invisible_ms
        taken, unwanted = [], []
        for message in popped.messages:
            handle = handle_of(message)
            # The property must never be stored: a client would read it as the broker's handle.
            del message.properties[names.POP_CK]
            if message.topic == self._retries:
                message.topic = message.properties.get(names.RETRY_TOPIC) or self._retries
            if wants(data, message):
                taken.append(HeldMessage(message, handle, until_ms, share))
            else:
                unwanted.append(handle)
        share.in_flight += len(taken)
        if unwanted:
            try:
                await self.calls.ack_all(data.topic, share.queue.broker_name, unwanted)
            except EpochError as error:
                log.info(
                    "cannot acknowledge messages without a wanted tag: %(error)s", {"error": error}
                )
        return taken
