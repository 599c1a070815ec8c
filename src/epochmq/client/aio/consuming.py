"""What is done with messages that are here: many at a time, or each queue strictly in order."""

import asyncio
import logging

from epochmq.base.errors import EpochError
from epochmq.client.aio.group_member import GroupMember, Owned
from epochmq.client.aio.listening import CallListener, ConsumeResult, call_listener
from epochmq.model import property_names as names
from epochmq.model.message import StoredMessage
from epochmq.model.retries import is_tried_out

log = logging.getLogger(__name__)

LOCAL_RETRY_MS = 5_000
SUSPEND_MS = 1_000
DEAD_LETTER = -1
BY_BROKER = 0
"""Delay levels of a send back: give up at once, or let the broker choose by the tries so far."""


class Concurrent:
    """Up to `concurrency` batches in listeners' hands at once, in no order."""

    def __init__(self, member: GroupMember, listener: CallListener, concurrency: int) -> None:
        self._member = member
        self._listener = listener
        self._concurrency = concurrency
        self._batches: asyncio.Queue[tuple[Owned, list[StoredMessage]]] = asyncio.Queue()

    def start(self) -> None:
        """Begin with the workers."""
        for number in range(self._concurrency):
            self._member.instance.spawn(self._work(), f"listener {number}")

    def took(self, owned: Owned) -> None:
        """Nothing is prepared per queue."""

    def arrived(self, owned: Owned) -> None:
        """Cut what waits into batches for the workers."""
        while batch := owned.window.next_messages(self._member.options.batch_size):
            self._batches.put_nowait((owned, batch))

    async def drain(self) -> None:
        """Wait until every batch was handled."""
        await self._batches.join()

    async def _work(self) -> None:
        while True:
            owned, batch = await self._batches.get()
            try:
                if not owned.window.dropped and not self._member.is_stopping:
                    await self._consume(owned, batch)
            finally:
                self._batches.task_done()

    async def _consume(self, owned: Owned, batch: list[StoredMessage]) -> None:
        result = await call_listener(self._listener, batch)
        failed = [] if result is ConsumeResult.SUCCESS else await self._give_back(owned, batch)
        owned.window.done([message for message in batch if message not in failed])
        if failed:
            owned.window.put_back(failed)
            loop = asyncio.get_running_loop()
            loop.call_later(LOCAL_RETRY_MS / 1_000, self.arrived, owned)
        if not owned.window.dropped:
            self._member.note_progress(owned)

    async def _give_back(self, owned: Owned, batch: list[StoredMessage]) -> list[StoredMessage]:
        """Send each of `batch` back to its broker; those for which that failed stay here."""
        member = self._member
        if member.is_stopping:
            return batch  # uncommitted, so whoever takes the queue next gets them
        if not member.is_clustering:
            log.warning("%d messages failed; broadcasting has no retry", len(batch))
            return []
        failed = []
        for message in batch:
            try:
                await member.calls.send_back(
                    message, owned.queue.broker_name, BY_BROKER, member.options.max_reconsume_times
                )
            except EpochError as error:
                log.warning("send back of %s: %s", message.msg_id, error)
                message.reconsume_times += 1
                failed.append(message)
        return failed


class Ordered:
    """One listener call at a time for each queue; a failure holds the queue, never skips."""

    def __init__(self, member: GroupMember, listener: CallListener) -> None:
        self._member = member
        self._listener = listener
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Workers begin with each queue."""

    def took(self, owned: Owned) -> None:
        """Begin with the worker of this queue."""
        task = self._member.instance.spawn(self._work(owned), f"ordered {owned.queue}")
        owned.tasks.append(task)

    def arrived(self, owned: Owned) -> None:
        """Wake the worker of this queue."""
        owned.arrived.set()

    async def drain(self) -> None:
        """Wait until no listener holds a message."""
        await self._idle.wait()

    async def _work(self, owned: Owned) -> None:
        while not owned.window.dropped and not self._member.is_stopping:
            if not owned.window.has_waiting:
                owned.arrived.clear()
                await owned.arrived.wait()
                continue
            if self._lost_lock(owned):
                await asyncio.sleep(SUSPEND_MS / 1_000)
                continue
            await self._consume(owned)

    def _lost_lock(self, owned: Owned) -> bool:
        now = self._member.instance.clock.now_ms()
        return self._member.is_clustering and not owned.window.is_locked(now)

    async def _consume(self, owned: Owned) -> None:
        batch = owned.window.next_messages(self._member.options.batch_size)
        self._busy += 1
        self._idle.clear()
        try:
            result = await call_listener(self._listener, batch)
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()
        if result is ConsumeResult.SUCCESS:
            owned.window.done(batch)
            if not owned.window.dropped:
                self._member.note_progress(owned)
            return
        if owned.window.dropped:
            return  # the next member tries it
        await self._hold(owned, batch)

    async def _hold(self, owned: Owned, batch: list[StoredMessage]) -> None:
        given_up = [message for message in batch if await self._gave_up(owned, message)]
        owned.window.done(given_up)
        if given_up and not owned.window.dropped:
            self._member.note_progress(owned)
        again = [message for message in batch if message not in given_up]
        for message in again:
            message.reconsume_times += 1
        owned.window.put_back(again)
        if again:
            await asyncio.sleep(SUSPEND_MS / 1_000)

    async def _gave_up(self, owned: Owned, message: StoredMessage) -> bool:
        """Put a message that failed too often to the dead letters; False while it may be tried."""
        limit = self._member.options.max_reconsume_times
        if not is_tried_out(message.reconsume_times, limit):
            return False
        message.properties.setdefault(names.RETRY_TOPIC, message.topic)
        try:
            await self._member.calls.send_back(message, owned.queue.broker_name, DEAD_LETTER, limit)
        except EpochError as error:
            log.warning("dead letter of %s: %s", message.msg_id, error)
            return False
        return True
