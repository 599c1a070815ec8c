"""Listener calls of a POP consumer: many at a time (`PopConcurrent`), or in order (`PopOrdered`).

A message that was handled is acknowledged. A message that failed is hidden for a longer time after
each failure, and becomes a dead letter after its last retry. RocketMQ's client acknowledges it
instead, and the message is lost.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from epochmq.base.errors import EpochError, NotReachable
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.client.aio.consuming import DEAD_LETTER, SUSPEND_MS
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.listening import CallListener, ConsumeResult, call_listener
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.aio.pop_member import HeldMessage, PopMember
from epochmq.client.core.pop_state import GIVE_BACK_MS, PopHandle, retry_delay_ms
from epochmq.model.group import is_tried_out

# Acknowledgements ----------------------------------------------------------------------------
# Acknowledges popped messages while listeners run. Acknowledgements that collect during a request
# are sent together in the next one.


log = logging.getLogger(__name__)

BATCH_MAX = 256
RETRY_MS = 500

_Target = tuple[str, str]
"""Broker name and topic."""


class _Ack(NamedTuple):
    handle: PopHandle
    until_ms: int
    done: Callable[[], None]


class Acker:
    """Sends acknowledgements, one request at a time for each broker and topic."""

    def __init__(self, instance: Instance, calls: PopCalls) -> None:
        self._instance = instance
        self._calls = calls
        self._pending: dict[_Target, list[_Ack]] = {}
        self._tasks: dict[_Target, asyncio.Task[None]] = {}

    def add(self, topic: str, handle: PopHandle, until_ms: int, done: Callable[[], None]) -> None:
        """Queue an acknowledgement. It is retried until `until_ms` (monotonic); then `done` is
        called.

        `done` is called in any case, also when the acknowledgement failed.
        """
        target = (handle.broker_name, topic)
        self._pending.setdefault(target, []).append(_Ack(handle, until_ms, done))
        if target not in self._tasks:
            self._tasks[target] = self._instance.spawn(self._run(target), f"acks {target}")

    async def drain(self) -> None:
        """Wait until all queued acknowledgements are answered or given up."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _run(self, target: _Target) -> None:
        broker_name, topic = target
        waiting = self._pending[target]
        try:
            while waiting:
                batch = waiting[:BATCH_MAX]
                del waiting[:BATCH_MAX]
                try:
                    await self._calls.ack_all(topic, broker_name, [ack.handle for ack in batch])
                except NotReachable as error:
                    batch, again = self._split(batch)
                    waiting[:0] = again
                    log.info(
                        "acknowledgements to %(broker_name)s failed: %(error)s",
                        {"broker_name": broker_name, "error": error},
                    )
                    await asyncio.sleep(RETRY_MS / 1_000)
                except EpochError as error:
                    log.warning(
                        "acknowledgements to %(broker_name)s failed: %(error)s",
                        {"broker_name": broker_name, "error": error},
                    )
                for ack in batch:
                    ack.done()
        finally:
            del self._tasks[target]

    def _split(self, batch: list[_Ack]) -> tuple[list[_Ack], list[_Ack]]:
        """Split `batch` into acknowledgements that are too late and those that can be
        tried again.
        """
        now = self._instance.clock.now_ms()
        late = [ack for ack in batch if ack.until_ms <= now]
        return late, [ack for ack in batch if ack.until_ms > now]


# Message results -----------------------------------------------------------------------------


class Fates:
    """Tells brokers the result of each message: acknowledged, hidden, or dead letter."""

    def __init__(self, member: PopMember) -> None:
        self._member = member
        self._calls = member.calls
        self._dead_letters = BrokerCalls(member.instance, member.group)
        self.acker: Acker = Acker(member.instance, member.calls)

    def done(self, taken: HeldMessage) -> None:
        """Queue the acknowledgement; the message counts as in flight until it is answered."""
        self.acker.add(taken.topic, taken.handle, taken.until_ms, taken.share.let_go)

    async def ack(self, taken: HeldMessage) -> None:
        """Acknowledge a message and wait: in ordered mode the next message is handled only after
        that.
        """
        try:
            await self._calls.ack(taken.topic, taken.handle)
        except EpochError as error:
            log.info(
                "cannot acknowledge %(msg_id)s: %(error)s",
                {"msg_id": taken.message.msg_id, "error": error},
            )

    async def hide(self, taken: HeldMessage, invisible_ms: int) -> None:
        """Hide a message for `invisible_ms`. On failure its present invisible time stays."""
        try:
            await self._calls.change_invisible(taken.topic, taken.handle, invisible_ms)
        except EpochError as error:
            log.info(
                "cannot change the invisible time of %(msg_id)s: %(error)s",
                {"msg_id": taken.message.msg_id, "error": error},
            )

    def is_late(self, taken: HeldMessage) -> bool:
        """Whether the invisible time is over, so that another member may have the message."""
        return taken.until_ms <= self._member.instance.clock.now_ms()

    async def gave_up(self, taken: HeldMessage) -> bool:
        """Make a dead letter of a message that failed too often. Return False if it may be tried
        again.
        """
        message, limit = taken.message, self._member.options.max_reconsume_times
        if not is_tried_out(message.reconsume_times, limit):
            return False
        try:
            name = taken.handle.broker_name
            await self._dead_letters.send_back(message, name, DEAD_LETTER, limit)
        except EpochError as error:
            log.warning(
                "cannot write the dead letter of %(msg_id)s: %(error)s",
                {"msg_id": message.msg_id, "error": error},
            )
            return False
        return True


class PopConcurrent:
    """Runs up to `concurrency` listener calls at the same time, in no order."""

    def __init__(self, member: PopMember, listener: CallListener, concurrency: int) -> None:
        self._member = member
        self._listener = listener
        self._concurrency = concurrency
        self._waiting: asyncio.Queue[HeldMessage] = asyncio.Queue()
        self._fates = Fates(member)

    def start(self) -> None:
        """Start the workers."""
        for number in range(self._concurrency):
            self._member.instance.spawn(self._work(), f"listener {number}")

    async def popped(self, taken: list[HeldMessage]) -> None:
        """Queue the messages for the workers."""
        for each in taken:
            self._waiting.put_nowait(each)

    async def drain(self) -> None:
        """Wait until every message is handled or given back, and every acknowledgement
        is answered.
        """
        await self._waiting.join()
        await self._fates.acker.drain()

    async def _work(self) -> None:
        while True:
            taken = await self._waiting.get()
            try:
                await self._consume(taken)
            finally:
                self._waiting.task_done()

    async def _consume(self, taken: HeldMessage) -> None:
        fates = self._fates
        if fates.is_late(taken):
            taken.share.let_go()  # it waited too long here; the broker delivers it again
            return
        if self._member.is_stopping:
            await fates.hide(taken, GIVE_BACK_MS)
            taken.share.let_go()
            return
        result = await call_listener(self._listener, [taken.message])
        if fates.is_late(taken):
            log.warning(
                "%(msg_id)s was handled for longer than its invisible time; it is delivered again",
                {"msg_id": taken.message.msg_id},
            )
            taken.share.let_go()
        elif result is ConsumeResult.SUCCESS or await fates.gave_up(taken):
            fates.done(taken)
        else:
            await fates.hide(taken, retry_delay_ms(taken.message.reconsume_times))
            taken.share.let_go()


class PopOrdered:
    """Handles the messages of a queue one by one. A failure blocks the messages behind it.

    A broker pops a queue again only when all messages popped before are acknowledged or visible
    again. So the messages behind a failed one are hidden for the same short time as that one, and
    are popped again together with it, in order.
    """

    def __init__(self, member: PopMember, listener: CallListener) -> None:
        self._member = member
        self._listener = listener
        self._fates = Fates(member)
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Do nothing: the pop loops call the listener."""

    async def popped(self, taken: list[HeldMessage]) -> None:
        """Handle the messages of each queue in order, and different queues at the same time."""
        queues: dict[tuple[str, int], list[HeldMessage]] = {}
        for each in taken:
            queues.setdefault((each.handle.mark, each.handle.queue_id), []).append(each)
        await asyncio.gather(*(self._queue(row) for row in queues.values()))

    async def drain(self) -> None:
        """Wait until no listener call is running."""
        await self._idle.wait()

    async def _queue(self, row: list[HeldMessage]) -> None:
        self._busy += 1
        self._idle.clear()
        try:
            for number, taken in enumerate(row):
                pause_ms = await self._consumed(taken)
                if pause_ms is not None:
                    await self._hold(row[number:], pause_ms)
                    break
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()
            for taken in row:
                taken.share.let_go()

    async def _consumed(self, taken: HeldMessage) -> int | None:
        """Handle one message. Return None on success, else the milliseconds to hide it and the
        rest.
        """
        fates = self._fates
        if fates.is_late(taken):
            return SUSPEND_MS
        if self._member.is_stopping:
            return GIVE_BACK_MS
        result = await call_listener(self._listener, [taken.message])
        if fates.is_late(taken):
            return SUSPEND_MS
        if result is ConsumeResult.SUCCESS or await fates.gave_up(taken):
            await fates.ack(taken)
            return None
        return SUSPEND_MS

    async def _hold(self, rest: list[HeldMessage], pause_ms: int) -> None:
        """Hide all messages at the same time, so that the first is not visible without those behind
        it.
        """
        rest[0].share.poll_ms_max = pause_ms
        ours = [taken for taken in rest if not self._fates.is_late(taken)]
        await asyncio.gather(*(self._fates.hide(taken, pause_ms) for taken in ours))
