"""The same traffic through RocketMQ's broker and ours, both scraped: shared metrics agree."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.observe.rocketmq_metrics import BROKER

from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.core.consumer_state import StartPoint
from epochmq.client.core.pop_state import handle_of
from epochmq.model.group import SubscriptionGroupConfig, build
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.bodies.group_bodies import ConsumerData, HeartbeatData

from .peers.cluster import Cluster
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster
from .peers.ports import free_port
from .peers.process import wait_until

TOPIC, GROUP = "measured", "G_measured"
SENT, PULLED, CONSUMED = 20, 12, 5
OURS_ONLY = {"broker_id"}
"""The label that tells the members of a group apart."""
JAVAS_ONLY = {"otel_scope_name", "otel_scope_version", "otel_scope_schema_url"}
OPERATING = Path(__file__).parents[2] / "docs" / "OPERATING.md"
STORE = {"storage_type", "storage_medium"}
STORED = "rocketmq_messages_in_total"
TYPED = "measured-by-type"
OF_TYPES = {"normal": {}, "delay": {"__STARTDELIVERTIME": "1700000000000"}}
LAG, FLYING, READY = (f"rocketmq_consumer_{name}_messages" for name in ("lag", "inflight", "ready"))
OUT = "rocketmq_messages_out_total"
LATER = {LAG, STORED}
FILTERED, POPPED = "measured-by-tag", "measured-popped"

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]


def scrape(port: int) -> tuple[dict[str, str], Samples]:
    """Return the kinds of all metrics and their samples."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    kinds, samples = {}, {}
    for family in text_string_to_metric_families(text):
        kinds[family.name] = family.type
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k not in OURS_ONLY | JAVAS_ONLY}
            samples[sample.name, frozenset(labels.items())] = sample.value
    return kinds, samples


def group_of(topic: str) -> str:
    return GROUP if topic == TOPIC else f"G_{topic}"


async def traffic(cluster: Cluster) -> None:
    async with Admin(cluster.namesrv_addr) as admin:
        for topic in (TOPIC, TYPED, FILTERED, POPPED):
            await admin.create_topic(TopicConfig(topic, 1, 1))
            config = SubscriptionGroupConfig(group_of(topic))
            await admin.put_group(cluster.broker_addr, config)
    async with Producer(cluster.namesrv_addr) as producer:
        for _ in range(SENT):
            await producer.send(Message(TOPIC, b"x" * 100, tags="A"))
        for number in range(SENT):
            await producer.send(Message(FILTERED, b"x", tags="AB"[number % 3 == 0]))
            await producer.send(Message(POPPED, b"x"))
        for properties in OF_TYPES.values():
            await producer.send(Message(TYPED, b"x", properties=properties))
        await producer.send_ordered(Message(TYPED, b"x"), "k")
    async with PullConsumer(cluster.namesrv_addr, GROUP) as consumer:
        queue = MessageQueue(TOPIC, cluster.broker_name, 0)
        result = await consumer.pull(queue, 0, count=PULLED)
        assert len(result.messages) == PULLED
        await consumer.commit(queue, CONSUMED)
    async with PullConsumer(cluster.namesrv_addr, group_of(FILTERED)) as consumer:
        queue = MessageQueue(FILTERED, cluster.broker_name, 0)
        await consumer.pull(queue, 0, count=PULLED)
        await consumer.commit(queue, CONSUMED)


@asynccontextmanager
async def members(cluster: Cluster) -> AsyncIterator[None]:
    """Keep a member of the group that filters and one of the group that pops; pop messages."""
    popped = build(POPPED, "*")
    data = [
        ConsumerData(
            group_of(wanted.topic), kind, "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [wanted]
        )
        for wanted, kind in ((build(FILTERED, "A"), "CONSUME_PASSIVELY"), (popped, "CONSUME_POP"))
    ]
    instance = Instance(cluster.namesrv_addr)
    instance.beat_with(lambda: HeartbeatData(client_id=instance.client_id, consumer_data_set=data))
    try:
        for topic in (FILTERED, POPPED):
            await instance.ensure_route(topic)
        await instance.greet_all()
        calls = PopCalls(instance, group_of(POPPED))
        found = await calls.pop(
            MessageQueue(POPPED, cluster.broker_name, -1), PULLED, popped,
            invisible_ms=300_000, start=StartPoint.FIRST, poll_ms=0,
        )  # fmt: skip
        for message in found.messages[:CONSUMED]:
            await calls.ack(POPPED, handle_of(message))
        yield
    finally:
        await instance.close()


class Measured:
    """A broker after the traffic."""

    def __init__(self, kind: type[Cluster], stack: ExitStack) -> None:
        port = free_port()
        config = {
            "metricsExporterType": "PROM",
            "metricsPromExporterPort": port,
            "metricsPromExporterHost": "127.0.0.1",
        }
        self.cluster = stack.enter_context(kind(broker_config=config))
        asyncio.run(self._measure(port))

    async def _measure(self, port: int) -> None:
        def is_complete() -> bool:
            try:
                self.kinds, self.samples = scrape(port)
            except (urllib.error.URLError, ConnectionError):
                return False
            names = {name for name, labels in self.samples if ("topic", TOPIC) in labels}
            # A broker may count what it has answered a moment later.
            of_types = self.of_topic(STORED, TYPED).values()
            return (
                names >= LATER
                and self.of_topic(LAG, FILTERED)
                and {*self.of_topic(FLYING, POPPED).values()} == {PULLED - CONSUMED, 0}
                and set(self.of_topic(STORED).values()) == {SENT}
                and sum(of_types) == len(OF_TYPES) + 1
            )

        await traffic(self.cluster)
        async with members(self.cluster):
            await asyncio.to_thread(wait_until, is_complete, 60, "a scrape with all topics")

    def of_topic(self, name: str, topic: str = TOPIC) -> dict[Labels, float]:
        """Return the samples of a metric that are about a topic of the test."""
        return {
            labels: value
            for (each, labels), value in self.samples.items()
            if each == name and ("topic", topic) in labels
        }


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Measured, Measured]]:
    """Ours and RocketMQ's."""
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        ours, java = pool.map(lambda kind: Measured(kind, stack), (EpochCluster, JavaCluster))
        yield ours, java


@pytest.mark.parametrize(
    "name",
    [STORED, OUT, LAG, READY, FLYING],
)
def test_counts_of_the_topic_are_the_same(brokers: tuple[Measured, Measured], name: str) -> None:
    ours, java = brokers
    print(name, ours.of_topic(name), java.of_topic(name))
    assert ours.of_topic(name) == java.of_topic(name)
    assert ours.of_topic(name)


@pytest.mark.parametrize("name", [OUT, LAG, READY, FLYING])
@pytest.mark.parametrize("topic", [FILTERED, POPPED])
def test_filters_and_pops_count_as_in_rocketmq(
    brokers: tuple[Measured, Measured], name: str, topic: str
) -> None:
    ours, java = (each.of_topic(name, topic) for each in brokers)
    print(name, ours, java)
    assert ours == java
    assert ours


def test_messages_have_the_types_that_their_senders_asked_for(
    brokers: tuple[Measured, Measured],
) -> None:
    ours, java = brokers
    found = ours.of_topic(STORED, TYPED)
    assert found == java.of_topic(STORED, TYPED)
    types = {dict(labels)["message_type"]: count for labels, count in found.items()}
    assert types == {"normal": 1, "delay": 1, "fifo": 1}


@pytest.mark.parametrize("name", ["rocketmq_throughput_in_total", "rocketmq_throughput_out_total"])
def test_bytes_of_the_topic_are_the_same(brokers: tuple[Measured, Measured], name: str) -> None:
    ours, java = (each.of_topic(name) for each in brokers)
    print(name, ours, java)
    assert ours.keys() == java.keys()
    for labels, value in ours.items():
        # The properties that a broker adds differ by a few bytes.
        assert value == pytest.approx(java[labels], rel=0.1)


def test_every_shared_metric_has_the_same_kind_and_labels(
    brokers: tuple[Measured, Measured],
) -> None:
    ours, java = brokers
    shared = {name for name in ours.kinds if name.startswith("rocketmq_")} & java.kinds.keys()
    print(sorted(shared))
    assert len(shared) > 15
    for name in shared:
        # RocketMQ's TYPE lines lack the unit, so that its samples with a unit have no kind.
        assert java.kinds[name] in (ours.kinds[name], "unknown"), name
        of_ours, of_java = (
            {frozenset(key for key, _ in labels) for each, labels in one.samples if each == name}
            for one in brokers
        )
        # RocketMQ adds the store's labels to some gauges of its timer and of POP.
        assert {labels - STORE for labels in of_ours} == {labels - STORE for labels in of_java} or (
            not (of_ours and of_java)
        ), name


def test_what_is_not_measured_is_in_the_documentation(brokers: tuple[Measured, Measured]) -> None:
    ours, java = (
        {_plain(name) for name, _ in one.samples if name.startswith("rocketmq_")} for one in brokers
    )
    text = OPERATING.read_text()
    # RocketMQ counts the check points of POP as timed messages; EpochMQ has no sample then.
    named = [name for name in (java - ours) if f"`{name}`" in text or f"`{name}_total`" in text]
    assert sorted(java - ours - {*named}) == []
    # RocketMQ may not have revived messages yet; but no name is ours alone.
    assert ours - java <= {f"rocketmq_{name}" for name in BROKER}


def _plain(name: str) -> str:
    """Return the name of a metric for the name of a sample."""
    for suffix in ("_bucket", "_count", "_sum", "_total"):
        name = name.removesuffix(suffix)
    return name
