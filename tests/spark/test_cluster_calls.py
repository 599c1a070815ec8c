"""What is asked of brokers, and what they make of groups they have not heard of."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.aio.eventually import eventually
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.cluster import Cluster as Peer
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.java import JavaCluster
from tests.spark import topics

from epochmq.base.errors import Refused, UsageError
from epochmq.client.aio.admin_client import Admin
from epochmq.model.topic import MessageQueue
from epochmq.spark.cluster_calls import SparkClusterCalls
from epochmq.spark.retry import Retries
from epochmq.wire.codes import ResponseCode

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=["epochmq", "java"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    if request.param == "epochmq":
        yield request.getfixturevalue("cluster")
        return
    try:
        made = JavaCluster()
    except UnavailableError as missing:
        pytest.skip(f"RocketMQ's broker cannot be had: {missing}")
    with made as running:
        yield running


def test_bounds_times_and_groups_on_both_brokers(peer: Peer, topic: str) -> None:
    first, second = topics.fill(peer.namesrv_addr, topic, 10)

    async def main() -> None:
        async with Admin(peer.namesrv_addr) as admin:
            calls = SparkClusterCalls(admin, Retries(admin, 10_000))
            assert topic in await calls.topics()
            assert await calls.queues(topic) == [first, second]
            full = {first: (0, 5), second: (0, 5)}  # RocketMQ's broker fills queues afterwards
            await eventually(lambda: calls.bounds_of([topic]), lambda bounds: bounds == full)
            times = {first: 1, second: 99_999_999_999_999}
            assert await calls.offsets_at(times) == {first: 0, second: 5}
            group = f"G_{topic}"
            assert await calls.committed(group, [first, second]) == {}
            await calls.commit(group, {first: 3, second: 4})
            assert await calls.committed(group, [first, second]) == {first: 3, second: 4}
            progress, _ = await admin.progress(group, topic)
            assert progress[MessageQueue(topic, first.broker_name, 0)].consumer_offset == 3
            places = await calls.key_places([first, second], ["k0", "none"])
            assert places.keys() <= {first, second}, "RocketMQ's broker does not know the request"
            if peer.kind == "epochmq":
                assert [each.offsets for each in places[first]] == [(0,), ()]
                assert [each.offsets for each in places[second]] == [(), ()]
            else:
                assert places == {}
            with pytest.raises(UsageError, match=f"cannot tell where epoch 1 of {topic} begins"):
                await calls.epoch_offsets(topic, 1)

    asyncio.run(main())


def test_first_offsets_of_a_group_do_not_replace_each_other(
    cluster: EpochCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ's broker creates the table of a group without a lock; all offsets are kept."""
    queues = topics.fill(cluster.namesrv_addr, topic, 8, 4)
    tables: dict[str, dict[int, int]] = {}

    async def commit_at(
        _admin: Admin, _address: str, group: str, queue: MessageQueue, offset: int
    ) -> None:
        key = f"{queue.topic}@{group}"
        table = tables.get(key)
        await asyncio.sleep(0)  # other requests run here
        if table is None:
            table = tables[key] = {}
        table[queue.queue_id] = offset

    monkeypatch.setattr(Admin, "commit_at", commit_at)

    async def main() -> None:
        async with Admin(cluster.namesrv_addr) as admin:
            calls = SparkClusterCalls(admin, Retries(admin, 10_000))
            await calls.bounds(topic)
            await calls.commit("G", dict.fromkeys(queues, 7))

    asyncio.run(main())
    assert tables == {f"{topic}@G": {queue.queue_id: 7 for queue in queues}}


def test_offsets_go_to_the_new_master_at_once(
    cluster: EpochCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one is a replica, and refuses them with the code that means any error."""
    first, _second = topics.create(cluster.namesrv_addr, topic)
    old = "127.0.0.1:1"

    async def main() -> None:
        async with Admin(cluster.namesrv_addr) as admin:
            routes, asked = admin.instance.routes, []
            true_master, true_expire, true_commit = routes.master, routes.expire, admin.commit_at
            known = [old]

            def master(name: str) -> str | None:
                return known[0] if known else true_master(name)

            def expire(name: str) -> None:
                known.clear()
                true_expire(name)

            async def commit_at(address: str, group: str, queue: MessageQueue, at: int) -> None:
                asked.append(address)
                if address == old or at > 5:
                    raise Refused(ResponseCode.SYSTEM_ERROR, "this broker is a replica")
                await true_commit(address, group, queue, at)

            monkeypatch.setattr(routes, "master", master)
            monkeypatch.setattr(routes, "expire", expire)
            monkeypatch.setattr(admin, "commit_at", commit_at)
            calls = SparkClusterCalls(admin, Retries(admin, 10_000))
            await calls.commit("G_moved", {first: 4})
            assert await calls.committed("G_moved", [first]) == {first: 4}
            assert asked[0] == old
            with pytest.raises(Refused, match="this broker is a replica"):
                await calls.commit("G_moved", {first: 6})

    asyncio.run(main())


def test_a_queue_that_may_not_be_read_is_left_out(cluster: EpochCluster, topic: str) -> None:
    from epochmq.model.topic import TopicConfig

    topics.fill(cluster.namesrv_addr, topic, 6, 3)

    async def main() -> None:
        async with Admin(cluster.namesrv_addr) as admin:
            await admin.create_topic(TopicConfig(topic, read_queue_nums=2, write_queue_nums=3))
            calls = SparkClusterCalls(admin, Retries(admin, 10_000))
            assert [queue.queue_id for queue in await calls.bounds(topic)] == [0, 1]

    asyncio.run(main())
