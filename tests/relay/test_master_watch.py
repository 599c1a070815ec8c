"""Which brokers a relay watches, and what it says of those that it cannot use."""

import asyncio

from tests.relay.brokers import GROUP, FakeBroker, FakeNameServer, log_lines
from tests.relay.test_relay_server import run_async

from epochmq.relay.master_watch import BROKERS_MAX, MasterWatch
from epochmq.runtime.peers import Peers


class Watched:
    """A watch, and an event for each change."""

    def __init__(self, name_servers: list[str], brokers: list[str]) -> None:
        self.changed = asyncio.Event()
        self.watch = MasterWatch(
            "DefaultCluster", GROUP, name_servers, brokers, Peers(), self.changed.set
        )

    async def until(self, master: str | None) -> None:
        while self.watch.tracker.master != master:
            await self.changed.wait()
            self.changed.clear()


@run_async
async def test_a_change_is_told_at_once() -> None:
    broker = await FakeBroker("b").start()
    watched = Watched([], [broker.address])
    watched.watch.start()
    await broker.watched.wait()
    broker.become(writable=True, epoch=1)
    await watched.until(broker.address)
    broker.become(writable=False, epoch=2)
    await watched.until(None)
    broker.become(writable=False, acting=True, epoch=0)
    await watched.until(broker.address)
    await broker.die()
    await watched.until(None)
    broker.become(writable=True, epoch=3)
    await broker.start()
    await watched.until(broker.address)
    await watched.watch.stop()
    await broker.die()


@run_async
async def test_a_broker_of_another_group_or_make_is_named_in_the_log() -> None:
    other = await FakeBroker("o", group="other").start()
    names = await FakeNameServer().start()
    watched = Watched([], [other.address, f"127.0.0.1:{names.port}"])
    with log_lines() as log:
        watched.watch.start()
        await log.until("it is a broker of group 'other'", "a relay needs brokers of EpochMQ")
    assert watched.watch.tracker.master is None
    await watched.watch.stop()
    await other.die()
    await names.stop()


@run_async
async def test_an_empty_list_of_name_servers_is_explained() -> None:
    names = await FakeNameServer().start()
    watched = Watched([f"127.0.0.1:{names.port}", "127.0.0.1:1"], [])
    with log_lines() as log:
        watched.watch.start()
        await log.until("is its name right?", "name server 127.0.0.1:1 lists no brokers")
    await watched.watch.stop()
    await names.stop()


@run_async
async def test_a_restarted_broker_stays_watched_and_their_number_is_limited() -> None:
    broker = await FakeBroker("b").start()
    watched = Watched([], [])
    watched.watch._watch_also([broker.address])
    watched.watch._watch_also([f"127.0.0.1:{port}" for port in range(1, BROKERS_MAX)])
    assert broker.address in watched.watch._watched
    watched.watch._watch_also([f"127.0.0.1:{port}" for port in range(1, 2 * BROKERS_MAX)])
    assert broker.address not in watched.watch._watched
    assert len(watched.watch._watched) == BROKERS_MAX
    await watched.watch.stop()
    await broker.die()
