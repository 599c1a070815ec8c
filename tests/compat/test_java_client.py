"""Upstream's Java client, a 5.x and a 4.9 release, on our broker."""

from __future__ import annotations

import asyncio
import time
import zlib
from typing import Literal

import pytest

from epochmq.client.aio import ConsumeResult, Producer, PushConsumer
from epochmq.model.message import Message, StoredMessage

from .clients import JAVA_4, JAVA_5
from .contract import ClientContract, unique
from .drivers.driver import Driver
from .peers import admin
from .peers.cluster import Cluster


class JavaContract(ClientContract):
    def test_clients_of_one_namespace_share_topics_and_groups(
        self, cluster: Cluster, driver: Driver
    ) -> None:
        """What Java sends, ours gives back once, and Java gets again: by topic, group and retry
        topic with the namespace, none of which an application sees.
        """
        namesrv, namespace = cluster.namesrv_addr, "shop"
        topic, group = unique(f"ns_{self.client.name}"), unique(f"G_ns_{self.client.name}")
        for name in (topic, f"{namespace}%{topic}"):
            admin.create_topic(cluster.broker_addr, name)
        admin.set_group(cluster.broker_addr, f"{namespace}%{group}", 16)
        driver.run("send", namesrv, topic, count=4, prefix="other")
        driver.run("send", namesrv, topic, count=4, prefix="mine", namespace=namespace)

        async def give_back() -> list[tuple[str, bytes]]:
            seen: list[tuple[str, bytes]] = []
            enough = asyncio.Event()

            def fail(messages: list[StoredMessage]) -> ConsumeResult:
                seen.extend((message.topic, message.body) for message in messages)
                if len(seen) == 4:
                    enough.set()
                return ConsumeResult.LATER

            async with (
                asyncio.timeout(30),
                PushConsumer(namesrv, group, start="first", namespace=namespace) as consumer,
            ):
                consumer.on_message(fail)
                await consumer.subscribe(topic)
                await consumer.start()
                await enough.wait()
            return seen

        seen = asyncio.run(give_back())
        assert sorted(seen) == [(topic, b"mine-%d" % n) for n in range(4)]
        again = driver.run(
            "push", namesrv, topic, group=group, namespace=namespace, count=4
        ).received
        assert sorted((event["topic"], event["body"]) for event in again) == [
            (topic, f"mine-{n}") for n in range(4)
        ]

        async def send() -> None:
            async with Producer(namesrv, "p", namespace=namespace) as producer:
                await producer.send(Message(topic, b"ours"))

        asyncio.run(send())
        bodies = driver.run(
            "push", namesrv, topic, group=group, namespace=namespace, count=1
        ).bodies
        assert bodies == ["ours"]


class TestJava5(JavaContract):
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


class TestJava4(JavaContract):
    client = JAVA_4
