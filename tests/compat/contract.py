"""What every third-party client must be able to do with the broker, whatever its language.

A client's test file subclasses ``ClientContract``. What takes a client half a minute of its own
waiting is in ``test_clients_together.py`` instead, for all of them at once.
"""

from __future__ import annotations

import itertools
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import ClassVar

import pytest

from .clients import Client
from .conftest import PEER
from .drivers.driver import Driver, Event
from .peers import admin
from .peers.cluster import Cluster
from .peers.process import wait_until
from .peers.records import Record, read_queue, read_topic

_serial = itertools.count()
COUNT = 12
SHARDS = 3


def unique(prefix: str) -> str:
    """A topic or group name of its own: tests share a cluster."""
    return f"{prefix}_{next(_serial)}"


def expected_bodies(prefix: str, count: int = COUNT) -> list[str]:
    """What a driver's ``send`` writes."""
    return [f"{prefix}-{i}" for i in range(count)]


def in_order_by_queue(events: Sequence[Event]) -> bool:
    """Whether each queue's messages came by rising offset."""
    offsets = defaultdict(list)
    for event in events:
        offsets[event["queue"]].append(event["queue_offset"])
    return all(seen == sorted(seen) for seen in offsets.values())


class ClientContract:
    """The tests; ``driver`` is what the client's ``build`` makes, once a class."""

    client: ClassVar[Client]

    def need(self, ability: str) -> None:
        """Skip where the client's library lacks what the test is about."""
        if ability in self.client.lacks:
            pytest.skip(f"the client offers no {ability}: {self.client.lacks[ability]}")

    def topic(self, cluster: Cluster, name: str) -> str:
        """A new topic of four queues."""
        return admin.create_topic(cluster.broker_addr, unique(f"{name}_{self.client.name}"))

    def group(self, cluster: Cluster, name: str, retry_max: int = 16) -> str:
        """A new consumer group."""
        made = unique(f"G_{name}_{self.client.name}")
        return admin.set_group(cluster.broker_addr, made, retry_max)

    @pytest.mark.parametrize("kind", ["sync", "async", "oneway", "batch", "ordered"])
    def test_send(self, cluster: Cluster, driver: Driver, kind: str) -> None:
        self.need(kind)
        topic = self.topic(cluster, kind)
        sent = driver.run(
            "send", cluster.namesrv_addr, topic, kind=kind, count=COUNT, prefix=kind, tags="A,B"
        ).sent
        assert len(sent) == COUNT
        wait_until(
            lambda: len(read_topic(cluster.broker_addr, topic)) >= COUNT, 30, "messages stored"
        )
        stored = read_topic(cluster.broker_addr, topic)
        assert Counter(record.text for record in stored) == Counter(expected_bodies(kind))
        self.check_properties(stored, kind)
        if kind in ("sync", "async", "ordered"):
            self.check_answers(stored, sent)
        if kind == "ordered":
            self.check_shards(stored, kind)

    def check_properties(self, stored: Sequence[Record], prefix: str) -> None:
        """Each message carries what its sender set."""
        for record in stored:
            i = int(record.text.rpartition("-")[2])
            assert record.properties["TAGS"] == "AB"[i % 2]
            assert record.properties["KEYS"] == f"{prefix}-k-{i}"
            assert record.properties["n"] == str(i)
            assert record.properties["note"] == "snow 雪"
        if prefix != "batch":  # a 5.3 client gives all messages of a batch one key
            assert len({record.properties["UNIQ_KEY"] for record in stored}) == len(stored)

    def check_answers(self, stored: Sequence[Record], sent: Sequence[Event]) -> None:
        """Each answer names the place where the message was stored."""
        by_body = {record.text: record for record in stored}
        for event in sent:
            record = by_body[event["body"]]
            assert event["status"] == "SEND_OK"
            assert event["queue_offset"] == record.queue_offset
            assert event.get("queue", record.queue) == record.queue
            if "id" in event:
                assert event["id"] == record.properties["UNIQ_KEY"]
            if "offset_id" in event:
                assert int(event["offset_id"][-16:], 16) == record.offset

    def check_shards(self, stored: Sequence[Record], prefix: str) -> None:
        """A shard stays in one queue, in the order of sending."""
        for shard in range(SHARDS):
            mine = [record for record in stored if int(record.properties["n"]) % SHARDS == shard]
            mine.sort(key=lambda record: record.queue_offset)
            assert len({record.queue for record in mine}) == 1
            numbers = [int(record.properties["n"]) for record in mine]
            assert numbers == sorted(numbers), prefix

    def test_large_body(self, cluster: Cluster, driver: Driver) -> None:
        topic, size = self.topic(cluster, "large"), 50_000
        driver.run("send", cluster.namesrv_addr, topic, count=1, prefix="large", size=size)
        (stored,) = read_topic(cluster.broker_addr, topic)
        assert stored.is_compressed
        assert len(stored.stored_body) < size
        (event,) = driver.run(
            "push", cluster.namesrv_addr, topic, group=self.group(cluster, "large"), count=1
        ).received
        assert event["size"] == size
        assert event["crc"] == zlib.crc32(b"large-0".ljust(size, b"."))

    def test_push_concurrent(self, cluster: Cluster, driver: Driver) -> None:
        topic = self.topic(cluster, "push")
        driver.run("send", cluster.namesrv_addr, topic, count=COUNT, prefix="push", tags="A,B")
        outcome = driver.run(
            "push", cluster.namesrv_addr, topic, group=self.group(cluster, "push"), count=COUNT
        )
        assert Counter(outcome.bodies) == Counter(expected_bodies("push"))
        stored = {record.text: record for record in read_topic(cluster.broker_addr, topic)}
        for event in outcome.received:
            record = stored[event["body"]]
            assert event["topic"] == topic
            assert (event["queue"], event["queue_offset"]) == (record.queue, record.queue_offset)
            assert event["keys"] == record.properties["KEYS"]
            assert event["tags"] == record.properties["TAGS"]
            assert event["props"]["note"] == "snow 雪"
            assert event["reconsume"] == 0

    def test_push_ordered(self, cluster: Cluster, driver: Driver) -> None:
        topic = self.topic(cluster, "ordered")
        driver.run("send", cluster.namesrv_addr, topic, kind="ordered", count=4 * COUNT, prefix="o")
        outcome = driver.run(
            "push",
            cluster.namesrv_addr,
            topic,
            group=self.group(cluster, "ordered"),
            order=True,
            count=4 * COUNT,
        )
        assert Counter(outcome.bodies) == Counter(expected_bodies("o", 4 * COUNT))
        assert in_order_by_queue(outcome.received)

    @pytest.mark.parametrize("interface", ["pull", "litepull"])
    def test_pull(self, cluster: Cluster, driver: Driver, interface: str) -> None:
        self.need(interface)
        topic = self.topic(cluster, interface)
        driver.run("send", cluster.namesrv_addr, topic, count=4 * COUNT, prefix="p")
        group = self.group(cluster, interface)
        outcome = driver.run(interface, cluster.namesrv_addr, topic, group=group, count=4 * COUNT)
        assert Counter(outcome.bodies) == Counter(expected_bodies("p", 4 * COUNT))
        assert in_order_by_queue(outcome.received)

    def test_broadcast(self, cluster: Cluster, driver: Driver) -> None:
        """Each member gets every message. Where a client begins at the end, it is awaited first."""
        topic, group = self.topic(cluster, "cast"), self.group(cluster, "cast")
        driver.start(
            "push",
            cluster.namesrv_addr,
            topic,
            group=group,
            broadcast=True,
            members=2,
            count=0,
            timeout_ms=60_000,
        )
        for _ in range(2):
            driver.wait_event(lambda event: event["event"] == "started")
        if self.client.broadcast_begins_at_end:
            self.probe(cluster, driver, topic)
        for i in range(COUNT):
            admin.send(cluster.broker_addr, topic, f"cast-{i}".encode(), queue=i % 4)
        got: dict[int, list[str]] = {0: [], 1: []}
        while any(len(bodies) < COUNT for bodies in got.values()):
            event = driver.wait_event(lambda event: event["event"] == "received", 30)
            if event["body"].startswith("cast-"):
                got[event["member"]].append(event["body"])
        driver.kill9()
        for bodies in got.values():
            assert sorted(bodies) == sorted(expected_bodies("cast"))

    def probe(self, cluster: Cluster, driver: Driver, topic: str) -> None:
        """Send until both members have seen something of every queue."""
        seen: set[tuple[int, int]] = set()
        deadline = time.monotonic() + 30
        while len(seen) < 8 and time.monotonic() < deadline:
            for queue in range(4):
                admin.send(cluster.broker_addr, topic, b"probe", queue=queue)
            for _ in range(8):
                event = driver.wait_event(lambda event: event["event"] == "received", 30)
                seen.add((event["member"], event["queue"]))

    def test_tag_filter(self, cluster: Cluster, driver: Driver) -> None:
        topic = self.topic(cluster, "tags")
        driver.run("send", cluster.namesrv_addr, topic, count=COUNT, prefix="t", tags="A,B,C,D")
        outcome = driver.run(
            "push",
            cluster.namesrv_addr,
            topic,
            group=self.group(cluster, "tags"),
            filter="A || C",
            count=COUNT // 2,
            linger_ms=300,
        )
        assert Counter(outcome.bodies) == Counter(expected_bodies("t")[::2])

    def test_sql92_filter(self, cluster: Cluster, driver: Driver) -> None:
        self.need("SQL92 filter")
        topic = self.topic(cluster, "sql")
        driver.run("send", cluster.namesrv_addr, topic, count=COUNT, prefix="s", tags="A,B")
        outcome = driver.run(
            "push",
            cluster.namesrv_addr,
            topic,
            group=self.group(cluster, "sql"),
            sql="(n BETWEEN 2 AND 8) AND color = 'red' AND note IS NOT NULL",
            count=4,
            linger_ms=300,
        )
        assert Counter(outcome.bodies) == Counter(["s-2", "s-4", "s-6", "s-8"])

    def test_delay_level(self, cluster: Cluster, driver: Driver) -> None:
        topic, group = self.topic(cluster, "delay"), self.group(cluster, "delay")
        begin_ms = time.time() * 1000
        driver.run("send", cluster.namesrv_addr, topic, count=1, prefix="d", delay=2)
        (event,) = driver.run("push", cluster.namesrv_addr, topic, group=group, count=1).received
        assert event["body"] == "d-0"
        assert event["topic"] == topic
        assert 1900 <= event["at_ms"] - begin_ms <= 20_000

    def test_retry_until_dead_letter(self, cluster: Cluster, driver: Driver) -> None:
        topic = self.topic(cluster, "retry")
        group = self.group(cluster, "retry", retry_max=1)
        driver.run("send", cluster.namesrv_addr, topic, count=1, prefix="r", tags="A")
        first, second = driver.run(
            "push",
            cluster.namesrv_addr,
            topic,
            group=group,
            fail=True,
            max_reconsume=1,
            count=2,
            linger_ms=500,
        ).received
        assert (first["reconsume"], second["reconsume"]) == (0, 1)
        assert first["topic"] == second["topic"] == topic
        assert first["body"] == second["body"] == "r-0"
        if PEER == "java":
            self.need("dead letter on upstream's broker")
        self.check_dead_letter(cluster, topic, group)

    def check_dead_letter(self, cluster: Cluster, topic: str, group: str) -> None:
        """The group's dead-letter topic has exactly this message, and says where it is from."""
        dead = f"%DLQ%{group}"

        def has_come() -> bool:
            try:
                return bool(read_queue(cluster.broker_addr, dead, 0))
            except AssertionError:  # no such topic yet
                return False

        wait_until(has_come, 30, f"a message in {dead}")
        (record,) = read_queue(cluster.broker_addr, dead, 0)
        assert record.text == "r-0"
        assert record.properties["RETRY_TOPIC"] == topic
        assert record.properties["KEYS"] == "r-k-0"
        assert record.properties["TAGS"] == "A"
        assert len(record.properties["ORIGIN_MESSAGE_ID"]) == 32

    def test_client_restart_in_the_middle(self, cluster: Cluster, driver: Driver) -> None:
        """A member stops cleanly, its successor is killed, the third finishes: nothing is lost."""
        topic, group = self.topic(cluster, "again"), self.group(cluster, "again")
        namesrv, total = cluster.namesrv_addr, 4 * COUNT
        driver.run("send", namesrv, topic, count=total, prefix="a")
        seen = set(driver.run("push", namesrv, topic, group=group, count=COUNT).bodies)
        for i in range(COUNT):
            admin.send(cluster.broker_addr, topic, f"more-{i}".encode(), queue=i % 4)
        everything = {*expected_bodies("a", total), *expected_bodies("more")}
        driver.start("push", namesrv, topic, group=group, count=0, timeout_ms=60_000)
        seen.add(driver.wait_event(lambda event: event["event"] == "received")["body"])
        driver.kill9()
        for i in range(COUNT):
            admin.send(cluster.broker_addr, topic, f"last-{i}".encode(), queue=i % 4)
        everything.update(expected_bodies("last"))
        driver.start("push", namesrv, topic, group=group, count=0, timeout_ms=60_000)
        while not everything <= seen | self.committed_bodies(cluster, topic, group):
            seen.add(driver.wait_event(lambda event: event["event"] == "received", 60)["body"])
        driver.kill9()

    def committed_bodies(self, cluster: Cluster, topic: str, group: str) -> set[str]:
        """What the group has confirmed: a killed member's lines may have died with it."""
        return {
            record.text
            for record in read_topic(cluster.broker_addr, topic)
            if record.queue_offset
            < (admin.committed(cluster.broker_addr, topic, group, record.queue) or 0)
        }
