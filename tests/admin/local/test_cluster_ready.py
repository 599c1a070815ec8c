"""Whether a cluster can be worked with."""

from tests.admin.world import World

from epochmq.admin.local.local_cluster import all_copied, brokers_known


async def test_a_cluster_that_is_up(world: World) -> None:
    assert await brokers_known(world.cluster.namesrv_addr) == 1


async def test_nobody_there(world: World) -> None:
    assert await brokers_known("127.0.0.1:1") == 0
    assert await brokers_known(world.broker) == 0  # somebody, but no name server


async def test_a_master_needs_no_copies_and_a_silent_broker_has_none(world: World) -> None:
    assert await all_copied(world.cluster.namesrv_addr, [world.broker])
    assert not await all_copied(world.cluster.namesrv_addr, [world.broker, "127.0.0.1:1"])
