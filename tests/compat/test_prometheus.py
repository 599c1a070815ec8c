"""A real Prometheus with the alert rules and the queries of `examples/monitoring`.

Each alert fires when its fault is there, and none fires in a calm group. Prometheus is Debian's.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from epochmq.base.errors import EpochError
from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig

from .peers.epochmq import EpochCluster
from .peers.group import Group
from .peers.ports import free_port
from .peers.process import Process, is_listening, wait_until
from .peers.small_disk import mounted
from .test_monitoring import HERE, PROM, expressions

PROMETHEUS = shutil.which("prometheus")
TOPIC, CONSUMERS = "measured", "billing"
CHUNK = 1 << 20

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="Prometheus is not installed here (apt-get install prometheus)"
)


class Prometheus:
    """A server that scrapes `ports` each second."""

    def __init__(self, root: Path, ports: list[int]) -> None:
        rules = re.sub(r"for: \S+", "for: 2s", (HERE / "alerts.yml").read_text())
        (root / "alerts.yml").write_text(rules)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(root / "alerts.yml")],
            "scrape_configs": [
                {
                    "job_name": "epochmq",
                    "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
                }
            ],
        }
        (root / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.port = free_port()
        self.process = Process(
            "prometheus",
            [
                PROMETHEUS or "",
                f"--config.file={root / 'prometheus.yml'}",
                f"--storage.tsdb.path={root / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            root / "prometheus.log",
            {},
        )

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        alerts = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def wait_for(self, alert: str, within_s: float = 40) -> None:
        """Wait until an alert fires."""
        wait_until(lambda: alert in self.firing(), within_s, f"{alert}; firing: {self.firing()}")

    def wait_without(self, alert: str, within_s: float = 60) -> None:
        """Wait until an alert does not fire any more."""
        wait_until(lambda: alert not in self.firing(), within_s, f"the end of {alert}")


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    # A master shows how far a replica is behind while they are connected: a stopped replica stays
    # connected here.
    config: dict[str, Any] = {"minInSyncReplicas": 2, "allAckInSyncStateSet": True}
    made = Group(broker_config={**config, "haHousekeepingInterval": 300_000})
    for server in (made.namesrv, *made.controllers, *made.brokers):
        server.config.update({**PROM, "metricsPromExporterPort": free_port()})
    with made as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EpochCluster, int]]:
    """A broker whose store is on a file system of 40 MiB, and its port for scrapes."""
    mount, port = tmp_path_factory.mktemp("disk"), free_port()
    config = {
        **PROM,
        "metricsPromExporterPort": port,
        "brokerName": "small",
        "storePathRootDir": str(mount / "store"),
        "storePathCommitLog": str(mount / "store" / "commitlog"),
        "diskSpaceCleanForciblyRatio": 98,
        "diskSpaceWarningLevelRatio": 99,
        "mappedFileSizeCommitLog": 4 << 20,
        "maxMessageSize": 1 << 20,
    }
    with mounted(mount, 40), EpochCluster(broker_config=config) as running:
        yield running, port


@pytest.fixture(scope="module")
def prometheus(
    group: Group, small: tuple[EpochCluster, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    servers = (group.namesrv, *group.controllers, *group.brokers)
    ports = [int(server.config["metricsPromExporterPort"]) for server in servers]
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), [*ports, small[1]])
    made.process.start()
    try:
        wait_until(lambda: is_listening(made.port), 30, "Prometheus listens")
        asyncio.run(traffic(group))
        yield made
    finally:
        made.process.kill9()


async def traffic(group: Group) -> None:
    """Messages of which a group has consumed some; two members and a producer are connected."""
    async with Admin(group.namesrv_addr) as admin:
        await admin.create_topic(TopicConfig(TOPIC, 1, 1))
        for address in (await admin.masters()).values():
            await admin.put_group(address, SubscriptionGroupConfig(CONSUMERS))
    await send(group.namesrv_addr, 5)
    async with PullConsumer(group.namesrv_addr, CONSUMERS) as consumer:
        queue = MessageQueue(TOPIC, group.broker_name, 0)
        await consumer.pull(queue, 0, count=5)
        await consumer.commit(queue, 5)


async def send(namesrv: str, count: int, size: int = 100) -> None:
    async with Producer(namesrv, timeout_ms=60_000) as producer:
        for _ in range(count):
            await producer.send(Message(TOPIC, os.urandom(size)))


async def kill_a_message(group: Group) -> None:
    """Send one message to the dead letters of the group."""
    async with PullConsumer(group.namesrv_addr, CONSUMERS) as consumer:
        queue = MessageQueue(TOPIC, group.broker_name, 0)
        found = await consumer.pull(queue, 0, count=1)
        calls = BrokerCalls(consumer.instance, CONSUMERS)
        await calls.send_back(found.messages[0], queue.broker_name, -1, 16)


def test_the_rule_file_is_valid() -> None:
    tool = shutil.which("promtool")
    assert tool is not None
    done = subprocess.run(
        [tool, "check", "rules", HERE / "alerts.yml"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


def test_no_alert_fires_in_a_calm_group(prometheus: Prometheus, group: Group) -> None:
    def is_scraped() -> bool:
        found = prometheus.ask("query", query='rocketmq_messages_in_total{topic="measured"}')
        return bool(found["result"])

    wait_until(is_scraped, 30, "samples of the topic")
    for _ in range(5):
        asyncio.run(send(group.namesrv_addr, 2))
        assert prometheus.firing() == set()
        signal.sigtimedwait([], 1)  # the next evaluation


def test_dead_letters(prometheus: Prometheus, group: Group) -> None:
    """The first dead letter of a group is the first sample of its counter."""
    asyncio.run(kill_a_message(group))
    prometheus.wait_for("EpochmqDeadLetters")


def test_each_query_of_the_dashboard_has_data(prometheus: Prometheus, group: Group) -> None:
    async def connected() -> None:
        from epochmq.client.aio import PushConsumer

        async with (
            Producer(group.namesrv_addr) as producer,
            PushConsumer(group.namesrv_addr, "members") as consumer,
        ):
            consumer.on_message(lambda messages: None)
            await consumer.subscribe(TOPIC)
            await consumer.start()
            missing = set(expressions())
            missing -= {each for each in missing if is_alert(each)}
            for _ in range(60):
                await producer.send(Message(TOPIC, b"x"))
                await asyncio.sleep(0.5)
                missing -= await asyncio.to_thread(answered, prometheus)
                if not missing:
                    break
            assert missing == set()

    asyncio.run(connected())


def answered(prometheus: Prometheus) -> set[str]:
    """Return the expressions with a result; the variables of Grafana are those of the file."""
    return {
        each
        for each in expressions()
        if prometheus.ask("query", query=each.replace("$cluster", ".*"))["result"]
    }


def is_alert(expression: str) -> bool:
    """Alerts have no result while nothing is wrong."""
    (only,) = yaml.safe_load((HERE / "alerts.yml").read_text())["groups"]
    return expression in {rule["expr"] for rule in only["rules"]}


def test_a_replica_that_lags_behind(prometheus: Prometheus, group: Group) -> None:
    master = group.master()
    slave = next(broker for broker in group.brokers if broker is not master)
    os.kill(slave.process.pid, signal.SIGSTOP)
    try:
        asyncio.run(send(group.namesrv_addr, 72, CHUNK))
        prometheus.wait_for("EpochmqReplicaLag")
        prometheus.wait_for("EpochmqSyncStateSetTooSmall", 60)
    finally:
        os.kill(slave.process.pid, signal.SIGCONT)
    prometheus.wait_without("EpochmqReplicaLag")
    prometheus.wait_without("EpochmqSyncStateSetTooSmall")


def test_a_group_that_lags_behind(prometheus: Prometheus, group: Group) -> None:
    async def fall_behind() -> None:
        async with PullConsumer(group.namesrv_addr, CONSUMERS) as consumer:
            await consumer.commit(MessageQueue(TOPIC, group.broker_name, 0), 5)

    asyncio.run(fall_behind())
    prometheus.wait_for("EpochmqConsumerLag", 100)


def test_a_disk_that_fills(prometheus: Prometheus, small: tuple[EpochCluster, int]) -> None:
    async def fill() -> None:
        try:
            await send(small[0].namesrv_addr, 60, 900_000)
        except EpochError:
            return
        raise AssertionError("the disk did not become full")

    assert "EpochmqDiskFilling" not in prometheus.firing()
    asyncio.run(fill())
    prometheus.wait_for("EpochmqDiskFilling")


def test_no_master_and_no_leader(prometheus: Prometheus, group: Group) -> None:
    for broker in group.brokers:
        broker.process.kill9()
    prometheus.wait_for("EpochmqGroupWithoutMaster")
    for controller in group.controllers[:2]:
        controller.process.kill9()
    prometheus.wait_for("EpochmqControllersWithoutLeader")
    for server in (*group.controllers[:2], *group.brokers):
        server.start()
    group.wait_ready()
    prometheus.wait_without("EpochmqGroupWithoutMaster")
    prometheus.wait_without("EpochmqControllersWithoutLeader")
    prometheus.wait_without("EpochmqSyncStateSetTooSmall")
