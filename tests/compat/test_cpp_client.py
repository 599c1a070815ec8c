"""The C++ client (librocketmq in PyPI's ``rocketmq``) on our broker."""

from __future__ import annotations

from .clients import CPP
from .contract import COUNT, ClientContract
from .drivers.driver import Driver
from .peers.cluster import Cluster
from .peers.records import read_topic


class TestCpp(ClientContract):
    client = CPP

    def test_batch_is_stored_whole_or_as_one(self, cluster: Cluster, driver: Driver) -> None:
        """Upstream stores this client's batch as one message; nothing may be torn or lost."""
        topic = self.topic(cluster, "batch")
        driver.run("send", cluster.namesrv_addr, topic, kind="batch", count=COUNT, prefix="b")
        stored = read_topic(cluster.broker_addr, topic)
        assert len(stored) in (1, COUNT)
        joined = b"".join(record.body for record in stored)
        assert all(f"b-{i}".encode() in joined for i in range(COUNT))
