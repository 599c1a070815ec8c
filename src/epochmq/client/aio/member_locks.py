"""The queue locks that brokers may hold for one member of a consumer group."""

import logging
from collections.abc import Collection, Iterable

from epochmq.base.errors import EpochError
from epochmq.base.ports import Clock
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.model.topic import MessageQueue

BROKER_LOCK_MS = 60_000
"""How long a broker keeps a lock that is not renewed."""

log = logging.getLogger(__name__)


class MemberLocks:
    """Locks and unlocks queues, and knows which locks a broker may still hold.

    A lock that nobody uses keeps other members off its queue for `BROKER_LOCK_MS`. Such a lock
    remains if the answer of the broker is lost, if the member cannot read the offset of the queue
    after it locked the queue, if the queue is given back while its lock is renewed, or if the
    broker is not reachable then. So a queue whose lock was requested is noted here until the broker
    says that another member has it, or until an unlock is sent.
    """

    def __init__(self, calls: BrokerCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._asked_ms: dict[MessageQueue, int] = {}
        """When the lock of a queue was last requested (monotonic ms)."""

    async def lock(self, broker_name: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock or renew `queues` of one broker; return those that this member holds now.

        Raises:
            EpochError: the broker does not answer, or refuses.
        """
        now = self._clock.now_ms()
        held: Collection[MessageQueue] = queues
        try:
            held = answered = await self._calls.lock(broker_name, queues)
            return answered
        finally:
            # Noted after the request: an unlock that was sent meanwhile may have been first.
            for queue in queues:
                if queue in held:
                    self._asked_ms[queue] = now
                else:
                    self._asked_ms.pop(queue, None)

    async def unlock(self, queue: MessageQueue) -> bool:
        """Unlock `queue`; return whether the request was sent."""
        try:
            await self._calls.unlock(queue.broker_name, [queue])
        except EpochError as error:
            log.info("cannot unlock %(queue)s: %(error)s", {"queue": queue, "error": error})
            return False
        self._asked_ms.pop(queue, None)
        return True

    async def unlock_all_but(self, owned: Iterable[MessageQueue]) -> bool:
        """Unlock each queue that may be locked and is not in `owned`; return whether all requests
        were sent. A lock that has ended by itself is forgotten.
        """
        now = self._clock.now_ms()
        for queue in self._asked_ms.keys() - set(owned):
            if now - self._asked_ms[queue] >= BROKER_LOCK_MS or await self.unlock(queue):
                self._asked_ms.pop(queue, None)
        return not self._asked_ms.keys() - set(owned)
