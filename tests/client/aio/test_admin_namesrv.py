"""Name servers, ours and RocketMQ's."""

import pytest
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotFound
from epochmq.client.aio import Admin, SendResult


async def test_topics_and_their_clusters(
    admin: Admin, topic: str, orders: list[SendResult]
) -> None:
    assert topic in await admin.topics()
    assert topic in await admin.topics("DefaultCluster")
    assert await admin.topics("Nope") == []
    assert await admin.clusters_of(topic) == ["DefaultCluster"]


async def test_entries_come_and_go(admin: Admin, topic: str) -> None:
    assert await admin.get_kv(topic, "k") is None
    assert await admin.kv_list(topic) == {}
    await admin.put_kv(topic, "k", "v=1;2")
    assert await admin.get_kv(topic, "k") == "v=1;2"
    assert await admin.kv_list(topic) == {"k": "v=1;2"}
    await admin.delete_kv(topic, "k")
    await admin.delete_kv(topic, "k")
    assert await admin.get_kv(topic, "k") is None


async def test_options(admin: Admin, any_cluster: Cluster) -> None:
    (options,) = (await admin.namesrv_configs()).values()
    assert options["listenPort"] == str(any_cluster.namesrv_port)
    await admin.update_namesrv_config({"orderMessageEnable": "true"})
    (options,) = (await admin.namesrv_configs()).values()
    assert options["orderMessageEnable"] == "true"


async def test_write_permission_goes_and_comes_back(
    admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    address = any_cluster.namesrv_addr
    try:
        assert await admin.wipe_write_perm(address, "broker-a") > 0
        assert (await admin.route(topic)).queue_datas[0].perm == 4
    finally:
        assert await admin.add_write_perm(address, "broker-a") > 0
    assert (await admin.route(topic)).queue_datas[0].perm == 6


async def test_a_broker_name_is_checked(admin: Admin) -> None:
    await admin.check_broker_name("broker-a")
    with pytest.raises(NotFound, match=r"no broker broker-z.*broker-a"):
        await admin.check_broker_name("broker-z")
