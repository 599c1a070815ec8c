"""Whether a cluster can be worked with."""

from tests.admin.world import World

from epochmq.admin.local.ready import brokers_known


async def test_a_cluster_that_is_up(world: World) -> None:
    assert await brokers_known(world.cluster.namesrv_addr) == 1


async def test_nobody_there(world: World) -> None:
    assert await brokers_known("127.0.0.1:1") == 0
    assert await brokers_known(world.broker) == 0  # somebody, but no name server
