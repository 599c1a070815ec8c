"""Addresses, routes and clusters, on our cluster and on RocketMQ's."""

import pytest
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_calls import ask_all, pick_address
from epochmq.model.topic import BrokerData


async def test_a_cluster_and_its_masters(admin: Admin, any_cluster: Cluster) -> None:
    info = await admin.cluster_info()
    assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
    expected = {"broker-a": any_cluster.broker_addr}
    assert await admin.masters() == await admin.masters("DefaultCluster") == expected


async def test_an_unknown_cluster_names_the_known(admin: Admin) -> None:
    with pytest.raises(NotFound, match=r"no cluster Nope.*DefaultCluster"):
        await admin.masters("Nope")


async def test_an_unknown_topic_is_not_found(admin: Admin) -> None:
    with pytest.raises(NotFound, match="NoSuchTopic"):
        await admin.brokers_of("NoSuchTopic")


async def test_nobody_there_is_not_reachable() -> None:
    async with Admin("127.0.0.1:1", timeout_ms=500) as admin:
        with pytest.raises(NotReachable):
            await admin.cluster_info()


def test_the_master_is_picked_before_a_slave() -> None:
    assert pick_address(BrokerData("c", "b", {2: "s2", 0: "m", 1: "s1"})) == "m"
    assert pick_address(BrokerData("c", "b", {2: "s2", 1: "s1"})) == "s1"
    assert pick_address(BrokerData("c", "b", {})) is None


async def test_all_are_asked_before_a_failure_is_raised() -> None:
    asked = []

    async def call(address: str) -> str:
        asked.append(address)
        if address == "b":
            raise Refused(1, "no")
        return address.upper()

    with pytest.raises(Refused):
        await ask_all(["a", "b", "c"], call)
    assert asked == ["a", "b", "c"]
    assert await ask_all(["a", "c"], call) == {"a": "A", "c": "C"}
