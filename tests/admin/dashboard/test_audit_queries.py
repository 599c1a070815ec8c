"""Audit logs of brokers, read by the administrative client."""

from tests.admin.world import World

from epochmq.admin.dashboard.audit_queries import latest_changes
from epochmq.admin.dashboard.cluster_client import ClusterClient


async def test_changes_the_newest_first(world: World) -> None:
    client = ClusterClient("test", world.cluster.namesrv_addr, None)
    try:
        rows = await latest_changes(client)
    finally:
        await client.close()
    assert any("UPDATE_AND_CREATE_TOPIC Topic:orders" in str(row["action"]) for row in rows)
    times = [int(str(row["wall_ms"])) for row in rows]
    assert times == sorted(times, reverse=True)
    assert {row["broker"] for row in rows} == {world.broker}
