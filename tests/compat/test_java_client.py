"""Upstream's Java client, a 5.x and a 4.9 release, on our broker."""

from __future__ import annotations

import asyncio
import time
import zlib
from typing import Literal

import pytest

from epochmq.client.aio import Producer
from epochmq.model.message import Message

from .clients import JAVA_4, JAVA_5
from .contract import ClientContract
from .drivers.driver import Driver
from .peers.cluster import Cluster


class TestJava5(ClientContract):
    client = JAVA_5

    def test_exact_delay(self, cluster: Cluster, driver: Driver) -> None:
        topic, group = self.topic(cluster, "exact"), self.group(cluster, "exact")
        begin_ms = time.time() * 1000
        driver.run("send", cluster.namesrv_addr, topic, count=1, prefix="d", delay_ms=2_300)
        (event,) = driver.run("push", cluster.namesrv_addr, topic, group=group, count=1).received
        assert event["body"] == "d-0"
        assert event["topic"] == topic
        assert 2_300 <= event["at_ms"] - begin_ms <= 20_000

    @pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
    def test_reads_each_codec_of_our_producer(
        self, cluster: Cluster, driver: Driver, codec: Literal["zlib", "lz4", "zstd"]
    ) -> None:
        """The body has several LZ4 blocks: the Java library refuses linked blocks."""
        topic, group = self.topic(cluster, codec), self.group(cluster, codec)
        body = b"compressed " * 30_000

        async def send() -> None:
            async with Producer(cluster.namesrv_addr, "p-codecs", compression=codec) as producer:
                await producer.send(Message(topic, body))

        asyncio.run(send())
        (event,) = driver.run("push", cluster.namesrv_addr, topic, group=group, count=1).received
        assert (event["size"], event["crc"]) == (len(body), zlib.crc32(body))


class TestJava4(ClientContract):
    client = JAVA_4
