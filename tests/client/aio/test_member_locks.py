"""Locks that a broker holds for a member that does not own the queue: none may stay behind.

Such a lock keeps the other members off the queue for 60 s.
"""

from collections.abc import Iterable
from typing import Any, cast

import pytest
from tests.broker.fake_node import FakeClock
from tests.client.aio.test_ordered import QUEUES, Place, fill, member, place

from epochmq.base.errors import NotReachable, Outcome
from epochmq.client.aio import PushConsumer
from epochmq.client.aio.group_member import GroupMember
from epochmq.client.aio.member_locks import BROKER_LOCK_MS, MemberLocks
from epochmq.model.topic import MessageQueue

__all__ = ["place"]
ONE, TWO = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


class LockingBroker:
    """What a broker holds for the member. It may be gone, or lose its answers."""

    def __init__(self, free: Iterable[MessageQueue] = (ONE, TWO)) -> None:
        self.free = set(free)
        self.held: set[MessageQueue] = set()
        self.is_gone = self.loses_answers = False
        self.unlocks = 0

    async def lock(self, broker_name: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        self._check()
        self.held |= set(queues) & self.free
        if self.loses_answers:
            raise NotReachable("no answer", Outcome.UNKNOWN)
        return set(queues) & self.held

    async def unlock(self, broker_name: str, queues: Iterable[MessageQueue]) -> None:
        self._check()
        self.unlocks += 1
        self.held -= set(queues)

    def _check(self) -> None:
        if self.is_gone:
            raise NotReachable("gone")


def locks_at(broker: LockingBroker, clock: FakeClock) -> MemberLocks:
    return MemberLocks(cast(Any, broker), clock)


async def test_a_lock_whose_answer_was_lost_is_unlocked() -> None:
    broker = LockingBroker()
    locks = locks_at(broker, FakeClock())
    broker.loses_answers = True
    with pytest.raises(NotReachable):
        await locks.lock("b", [ONE])
    assert await locks.unlock_all_but([])
    assert not broker.held


async def test_an_unlock_is_sent_again_until_the_broker_is_reached() -> None:
    broker = LockingBroker()
    locks = locks_at(broker, FakeClock())
    assert await locks.lock("b", [ONE, TWO]) == {ONE, TWO}
    broker.is_gone = True
    assert not await locks.unlock(ONE)
    assert not await locks.unlock_all_but([TWO])
    broker.is_gone = False
    assert await locks.unlock_all_but([TWO])
    assert broker.held == {TWO}
    assert await locks.unlock_all_but([TWO])
    assert broker.unlocks == 1


async def test_a_lock_that_another_member_holds_needs_no_unlock() -> None:
    broker = LockingBroker(free=[TWO])
    locks = locks_at(broker, FakeClock())
    assert await locks.lock("b", [ONE, TWO]) == {TWO}
    assert await locks.unlock_all_but([TWO])
    assert broker.unlocks == 0


async def test_a_lock_that_has_ended_by_itself_is_forgotten() -> None:
    broker, clock = LockingBroker(), FakeClock()
    locks = locks_at(broker, clock)
    await locks.lock("b", [ONE])
    broker.is_gone = True
    clock.now += BROKER_LOCK_MS - 1
    assert not await locks.unlock_all_but([])
    clock.now += 1
    assert await locks.unlock_all_but([])


# A consumer and a broker -----------------------------------------------------------------------


async def started(place: Place, topic: str) -> PushConsumer:
    """A member that owns all queues."""
    await fill(place, topic, 1)
    consumer = member(place, topic)
    consumer.on_message(lambda _: None)
    await consumer.subscribe(topic)
    await consumer.start()
    await consumer.ready()
    assert len(consumer.assignment()) == QUEUES
    return consumer


def owners(place: Place, topic: str) -> set[str]:
    """Who holds locks of the queues of `topic`."""
    locks, now = place.broker.node.locks, place.broker.node.clock.now_ms()
    found = {locks.owner(f"g_{topic}", MessageQueue(topic, "b", n), now) for n in range(QUEUES)}
    return {owner for owner in found if owner is not None}


@pytest.mark.slow
async def test_a_queue_whose_offset_cannot_be_read_is_unlocked(
    place: Place, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next rebalance the queue may belong to another member."""
    consumer = await started(place, topic)
    owned = consumer.member
    for queue in list(owned.owned):
        await owned.give(queue)

    async def unreadable(queue: MessageQueue) -> int:
        raise NotReachable("gone")

    monkeypatch.setattr(owned.calls, "committed", unreadable)
    assert not await owned.rebalance()
    await reached(place, owned)
    assert not owners(place, topic)
    monkeypatch.undo()
    assert await owned.rebalance()
    assert owners(place, topic) == {consumer.instance.client_id}
    await consumer.close()


@pytest.mark.slow
async def test_a_queue_that_was_given_back_during_a_renewal_is_unlocked(
    place: Place, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = await started(place, topic)
    owned = consumer.member
    lock = owned.calls.lock

    async def late(name: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        """The queue is given back while the request is under way."""
        await consumer.unsubscribe(topic)
        return await lock(name, queues)

    monkeypatch.setattr(owned.calls, "lock", late)
    await owned._renew("b", [q for q in owned.owned if q.topic == topic])
    assert owners(place, topic) == {consumer.instance.client_id}
    monkeypatch.undo()
    assert await owned.rebalance()
    await reached(place, owned)
    assert not owners(place, topic)
    await consumer.close()


async def reached(place: Place, owned: GroupMember) -> None:
    """Wait until the broker has read the unlock requests before: they have no answers."""
    await owned.calls.members(next(iter(owned.subscriptions)))
