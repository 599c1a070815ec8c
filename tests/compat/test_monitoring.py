"""The alert rules and the dashboard of `examples/monitoring`, against scrapes of a real group.

Prometheus is not needed: the test knows the few functions that the expressions use. The master is
killed, and exactly the alerts about that become true.
"""

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig

from .peers.group import Group
from .peers.ports import free_port
from .peers.process import wait_until

HERE = Path(__file__).parents[2] / "examples" / "monitoring"
METRIC = re.compile(r"\b(?:rocketmq_\w+|epochmq_\w+|role|active_broker_num)\b(?=[\s{)\[<>=/+]|$)")
LABELS = re.compile(r"by \(([^)]*)\)")
RARE = {
    "rocketmq_send_to_dlq_messages_total",
    "rocketmq_consumer_connections",
    "rocketmq_producer_connections",
}
"""Metrics without samples here: nothing went to a dead-letter topic, and no client is connected."""
PROM = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1"}

Sample = tuple[str, Mapping[str, str], float]


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    made = Group(broker_config={"minInSyncReplicas": 2})
    for server in (made.namesrv, *made.controllers, *made.brokers):
        server.config.update({**PROM, "metricsPromExporterPort": free_port()})
    with made as running:
        yield running


def scrape(group: Group) -> list[Sample]:
    """Return the samples of all servers that answer."""
    found: list[Sample] = []
    for server in (group.namesrv, *group.controllers, *group.brokers):
        where = f"http://127.0.0.1:{server.config['metricsPromExporterPort']}/metrics"
        try:
            with urllib.request.urlopen(where, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            continue
        for family in text_string_to_metric_families(text):
            found += [(sample.name, sample.labels, sample.value) for sample in family.samples]
    return found


async def traffic(group: Group) -> None:
    async with Admin(group.namesrv_addr) as admin:
        await admin.create_topic(TopicConfig("t", 1, 1))
    async with Producer(group.namesrv_addr) as producer:
        for _ in range(5):
            await producer.send(Message("t", b"x"))
    async with PullConsumer(group.namesrv_addr, "g") as consumer:
        queue = MessageQueue("t", group.broker_name, 0)
        await consumer.pull(queue, 0, count=2)
        await consumer.commit(queue, 2)


def rules() -> dict[str, str]:
    (only,) = yaml.safe_load((HERE / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in only["rules"]}


def expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads((HERE / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [*rules().values(), *queries]


async def test_each_metric_and_label_is_in_a_scrape(group: Group) -> None:
    await traffic(group)

    def is_there() -> bool:
        return {name for name, labels, _ in scrape(group) if labels.get("topic") == "t"} >= {
            "rocketmq_messages_in_total", "rocketmq_messages_out_total"
        }  # fmt: skip

    wait_until(is_there, 20, "samples of the topic")
    samples = scrape(group)
    assert biggest(samples, "epochmq_namesrv_brokers") == len(group.brokers)
    assert biggest(samples, "epochmq_namesrv_has_master") == 1
    labels_of: dict[str, set[str]] = {}
    for name, labels, _ in samples:
        labels_of.setdefault(name, set()).update(labels)
    for expression in expressions():
        names = set(METRIC.findall(LABELS.sub("", re.sub(r"\{[^}]*\}", "", expression)))) - RARE
        assert names or set(METRIC.findall(expression)) <= RARE, expression
        assert names <= labels_of.keys(), expression
        grouped = {one.strip() for found in LABELS.findall(expression) for one in found.split(",")}
        matched = set(re.findall(r"[{,](\w+)=", expression))
        for name in names:
            assert grouped | matched <= labels_of[name], (expression, name)


def biggest(samples: list[Sample], name: str) -> float:
    return max((value for each, _, value in samples if each == name), default=0)


def firing(samples: list[Sample]) -> set[str]:
    """Return the alerts about the group that are true now; the names are those of the file."""
    free = biggest(samples, "epochmq_storage_free_bytes")
    size = free + biggest(samples, "rocketmq_storage_size_bytes")
    conditions = {
        "EpochmqGroupWithoutMaster": biggest(samples, "epochmq_writable") == 0,
        "EpochmqSyncStateSetTooSmall": biggest(samples, "epochmq_group_sync_state_set_size")
        < biggest(samples, "epochmq_group_replicas"),
        "EpochmqReplicaLag": biggest(samples, "epochmq_replica_lag_bytes") > 64e6,
        "EpochmqConsumerLag": biggest(samples, "rocketmq_consumer_lag_latency_milliseconds")
        > 60_000,
        "EpochmqDeadLetters": biggest(samples, "rocketmq_send_to_dlq_messages_total") > 0,
        "EpochmqDiskFilling": free < 0.15 * size
        or biggest(samples, "epochmq_storage_disk_full") == 1,
        "EpochmqLogDamaged": biggest(samples, "epochmq_storage_damaged_ranges") > 0
        or biggest(samples, "epochmq_storage_fenced") == 1,
        "EpochmqControllersWithoutLeader": biggest(samples, "role") < 3
        or biggest(samples, "epochmq_raft_has_leader") == 0,
    }
    assert conditions.keys() == rules().keys()
    return {name for name, holds in conditions.items() if holds}


def test_alerts_are_silent_in_a_calm_group_and_true_when_servers_die(group: Group) -> None:
    group.wait_ready()
    wait_until(lambda: not firing(scrape(group)), 20, "a group without alerts")
    master = group.master()
    assert master is not None
    epoch = biggest(scrape(group), "epochmq_group_master_epoch")
    master.process.kill9()
    wait_until(
        lambda: firing(scrape(group)) == {"EpochmqSyncStateSetTooSmall"}, 20, "the next master"
    )
    assert biggest(scrape(group), "epochmq_group_master_epoch") > epoch
    assert biggest(scrape(group), "epochmq_last_election_milliseconds") < 5_000
    others = [broker for broker in group.brokers if broker is not master]
    for broker in others:
        broker.process.kill9()
    wait_until(
        lambda: "EpochmqGroupWithoutMaster" in firing(scrape(group)), 20, "no master in a scrape"
    )
    for controller in group.controllers[:2]:
        controller.process.kill9()
    wait_until(lambda: "EpochmqControllersWithoutLeader" in firing(scrape(group)), 20, "no leader")
    for server in (*group.controllers[:2], *group.brokers):
        server.start()
    group.wait_ready()
    wait_until(lambda: not firing(scrape(group)), 30, "a group without alerts again")
