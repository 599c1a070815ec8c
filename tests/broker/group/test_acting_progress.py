"""A slave copies the progress of an earlier acting master before it acts itself."""

import asyncio

from tests.broker.group.group import InProcess
from tests.broker.group.test_acting_service import SLAVE, acting, group, member, stands_in

from epochmq.broker.group.acting_master import Cease
from epochmq.broker.group.acting_progress import ActingProgressFetch
from epochmq.runtime.peers import Peers

__all__ = ["group"]


async def test_it_waits_until_the_other_one_has_ceased(group: InProcess) -> None:
    other = await acting(group)
    own = await group.start_broker(2, **{**SLAVE, "broker_id": 2})
    group.brokers.append(own)
    peers, done = Peers(), asyncio.Event()
    progress = ActingProgressFetch(own.node, peers)
    progress.fetch([other.node.address], done.set)
    await asyncio.sleep(0.3)
    assert stands_in(other)
    assert not done.is_set()
    other.node.groups.find("G", 0)
    other.node.offsets.commit("G", "T", 0, 1)
    member(other)._change(Cease("test"))
    member(other).acting.core.acting, member(other).acting.core.owes = False, True
    await asyncio.wait_for(done.wait(), 5)
    assert own.node.offsets.get("G", "T", 0) == 1
    await progress.stop()
    await peers.close()


async def test_an_unreachable_slave_delays_no_other(group: InProcess) -> None:
    other = await acting(group)
    await other.stop(grace_ms=0)
    own = await group.start_broker(2, **{**SLAVE, "broker_id": 2})
    group.brokers.append(own)
    peers, done = Peers(), asyncio.Event()
    progress = ActingProgressFetch(own.node, peers)
    progress.fetch([other.node.address], done.set)
    await asyncio.wait_for(done.wait(), 5)
    await progress.stop()
    await peers.close()
