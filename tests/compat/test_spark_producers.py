"""Messages of third-party clients as rows of Spark's source, which needs no JVM to make them.

Unmodified clients send to our broker; the reader that Spark would pickle to its executors gives
Arrow batches, and nothing of a message is missing in them: compressed bodies of every codec,
batches, properties, long names (records V2), IPv6 hosts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from tests.spark import topics

from epochmq.model import record as records
from epochmq.spark import columns
from epochmq.spark.rows import close_clusters
from epochmq.spark.source import batch_reader

from .clients import CPP, GO, JAVA_4, JAVA_5, NODE, Client
from .conftest import had
from .drivers.driver import Driver
from .peers import wire
from .peers.cluster import Cluster
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster
from .peers.process import is_listening, wait_until
from .peers.records import Record, read_topic
from .peers.relay import Relay, has_ipv6
from .told import CODEC, COUNT, LONG, Sends, check_rows, make_topic, sends_of

Rows = list[dict[str, Any]]
HOSTS = ("bornHost", "storeHost")


def rows_of(namesrv: str, topic: str, **options: str) -> Rows:
    """All rows of a topic, with all columns, as a task of Spark makes them."""
    given = {"nameServer": namesrv, "subscribe": topic, "failoverTimeoutMs": "10s", **options}
    schema = columns.schema(columns.NAMES, given.get("properties", "map"))
    planned = batch_reader(given, from_arrow_schema(schema))
    reader = pickle.loads(pickle.dumps(planned))
    found: Rows = []
    for part in planned.partitions():
        for batch in reader.read(part):
            found += batch.to_pylist()
    for row in found:
        if isinstance(row["properties"], list):
            row["properties"] = dict(row["properties"])
    return found


@pytest.fixture(scope="module", autouse=True)
def ends_with_connections_closed() -> Iterator[None]:
    yield
    close_clusters()


class SparkContract:
    """The tests; ``driver`` is what the client's ``build`` makes, once a class."""

    client: ClassVar[Client]

    def test_every_row_is_a_message_and_whole(self, cluster: Cluster, driver: Driver) -> None:
        for sends in sends_of(self.client):
            topic = make_topic(cluster.broker_addr, sends.topic("spark"))
            sent = sends.run(driver, cluster.namesrv_addr, topic)
            stored = read_topic(cluster.broker_addr, topic)
            rows = rows_of(cluster.namesrv_addr, topic)
            check_rows(rows, sends, topic, sent, stored)
            assert {row["bornHost"].rpartition(":")[0] for row in rows} == {"127.0.0.1"}
            assert {row["storeHost"] for row in rows} == {cluster.broker_addr}
            if sends.topic_tail:
                assert all(magic(each) == records.MAGIC_V2 for each in stored)
            if sends.codecs:
                check_as_stored(cluster, topic, rows, stored)


def magic(record: Record) -> int:
    """The record's first word behind its size: which version it is."""
    return int.from_bytes(record.raw[4:8], "big")


def check_as_stored(cluster: Cluster, topic: str, rows: Rows, stored: Sequence[Record]) -> None:
    """Without decompression a row has what the producer made of the body."""
    raw = rows_of(cluster.namesrv_addr, topic, decompress="false", properties="raw")
    assert sorted(row["body"] for row in raw) == sorted(each.stored_body for each in stored)
    assert {row["sysFlag"] & CODEC for row in raw} == {row["sysFlag"] & CODEC for row in rows}


class TestJava5(SparkContract):
    client = JAVA_5

    def test_a_batch_kept_as_one_record(self, cluster: Cluster, driver: Driver) -> None:
        """A queue of type BatchCQ: one record, COUNT rows with consecutive offsets."""
        namesrv, name = cluster.namesrv_addr, "spark_Java5_BatchCQ"
        topics.create(namesrv, name, 1, {"+queue.type": "BatchCQ"})
        sends = Sends("kept", JAVA_5, "batch")
        sends.run(driver, namesrv, name)
        sends.run(driver, namesrv, name)
        rows = rows_of(namesrv, name)
        assert [row["queueOffset"] for row in rows] == list(range(2 * COUNT))
        assert [row["body"] for row in rows] == sends.bodies() * 2
        for i, row in enumerate(rows):
            assert row["properties"]["n"] == str(i % COUNT)
            assert row["properties"]["note"] == "snow 雪"
            assert row["keys"] == f"m-k-{i % COUNT}"


class TestJava4(SparkContract):
    client = JAVA_4


class TestCpp(SparkContract):
    client = CPP


class TestNode(SparkContract):
    client = NODE


class TestGo(SparkContract):
    client = GO


class V6Cluster(EpochCluster):
    """A broker that is only reached, and only known, by its IPv6 address."""

    def __init__(self) -> None:
        super().__init__(broker_config={"bindAddress": "::1", "brokerIP1": "::1"})

    @property
    def broker_addr(self) -> str:
        return f"[::1]:{self.broker_port}"

    def is_ready(self) -> bool:
        return is_listening(self.broker_port, "::1") and wire.is_registered(
            self.namesrv_addr, self.broker_addr
        )


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")


@needs_ipv6
@pytest.mark.parametrize("client", [JAVA_5, CPP, NODE], ids=lambda client: client.name)
def test_producers_with_ipv6_addresses(client: Client) -> None:
    """The broker listens on IPv6 alone; clients without IPv6 come through a relay."""
    config = {"bindAddress": "::1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1"}
    cluster = EpochCluster(broker_config=config)
    with Relay(cluster.broker_port), cluster, had(client.build) as driver:
        for sends in (Sends("sync", client), Sends("large", client, codecs=(0, 0x300))):
            topic = make_topic(cluster.broker_addr, sends.topic("v6"))
            sent = sends.run(driver, cluster.namesrv_addr, topic)
            rows = rows_of(cluster.namesrv_addr, topic)
            check_rows(rows, sends, topic, sent, read_topic(cluster.broker_addr, topic))
            assert {row["bornHost"].rpartition(":")[0] for row in rows} == {"[::1]"}
            assert {row["storeHost"] for row in rows} == {cluster.broker_addr}
        close_clusters()


@needs_ipv6
def test_a_broker_with_an_ipv6_address() -> None:
    with V6Cluster() as cluster, had(JAVA_5.build) as driver:
        for sends in (Sends("sync", JAVA_5), Sends("batch", JAVA_5, "batch")):
            topic = make_topic(cluster.broker_addr, sends.topic("v6"))
            sent = sends.run(driver, cluster.namesrv_addr, topic)
            rows = rows_of(cluster.namesrv_addr, topic)
            check_rows(rows, sends, topic, sent, read_topic(cluster.broker_addr, topic))
            hosts = {row[name].rpartition(":")[0] for row in rows for name in HOSTS}
            assert hosts == {"[::1]"}
            assert {row["storeHost"] for row in rows} == {cluster.broker_addr}
        close_clusters()


def test_a_retry_topic_with_a_long_name_on_upstreams_broker() -> None:
    """There a group may have 255 letters: what it hands back becomes a V2 record."""
    group = f"G_{LONG}"
    retry = f"%RETRY%{group}"
    levels = {"messageDelayLevel": " ".join(["1s"] * 18)}
    peer = had(lambda: JavaCluster(broker_config=levels))
    with peer as cluster, had(JAVA_5.build) as driver:
        topic = make_topic(cluster.broker_addr, "spark_handed_back")
        sends = Sends("sync", JAVA_5)
        sends.run(driver, cluster.namesrv_addr, topic)
        driver.run(
            "push", cluster.namesrv_addr, topic, group=group, count=COUNT, fail=True, linger_ms=500
        )
        wait_until(
            lambda: len(read_topic(cluster.broker_addr, retry, 1)) >= COUNT, 60, "what failed"
        )
        stored = read_topic(cluster.broker_addr, retry, 1)
        assert all(magic(each) == records.MAGIC_V2 for each in stored)
        rows = rows_of(cluster.namesrv_addr, retry)
        first = [row for row in rows if row["reconsumeTimes"] == 1]
        assert sorted(row["body"] for row in first) == sorted(sends.bodies())
        for row in first:
            assert row["topic"] == retry
            assert row["properties"]["RETRY_TOPIC"] == topic
            assert row["properties"]["note"] == "snow 雪"
        close_clusters()
