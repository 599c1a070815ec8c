"""Figures and options of brokers, ours and RocketMQ's."""

import pytest
from tests.client.aio.eventually import eventually
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import Refused
from epochmq.client.aio import Admin, SendResult


async def test_runtime_info(admin: Admin, any_cluster: Cluster) -> None:
    # RocketMQ's broker fails until it has measured a rate.
    info = await eventually(lambda: admin.runtime_info(any_cluster.broker_addr))
    assert info["brokerActive"] == "true"
    assert info["brokerVersionDesc"].startswith("V5_")
    assert {"putTps", "getTransferredTps", "msgPutTotalTodayNow", "commitLogMaxOffset"} <= set(info)


async def test_options_are_read_and_changed(admin: Admin, any_cluster: Cluster) -> None:
    address = any_cluster.broker_addr
    assert (await admin.broker_config(address))["brokerName"] == "broker-a"
    await admin.update_broker_config(address, {"maxTransferCountOnMessageInMemory": "40"})
    assert (await admin.broker_config(address))["maxTransferCountOnMessageInMemory"] == "40"


async def test_counters_of_a_topic(
    admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    address = any_cluster.broker_addr
    stats = await eventually(lambda: admin.broker_stats(address, "TOPIC_PUT_NUMS", topic))
    assert stats.stats_minute.sum >= 0
    with pytest.raises(Refused):
        await admin.broker_stats(address, "TOPIC_PUT_NUMS", "never-used")
