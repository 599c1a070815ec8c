"""RocketMQ's gRPC client for Python on our broker, by RocketMQ's proxy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .conftest import had
from .contract import unique
from .drivers import build
from .peers import admin
from .peers.cluster import Cluster
from .peers.proxy import Proxy
from .peers.records import read_topic

Run = Callable[[str, str, str], list[dict[str, Any]]]
COUNT = 12


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with had(lambda: Proxy(cluster.namesrv_addr)) as running:
        yield running


@pytest.fixture(scope="module")
def grpc(proxy: Proxy) -> Run:
    """Runs a scenario of the driver."""
    python = had(build.grpc_environment) / "bin" / "python"

    def run(scenario: str, topic: str, group: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [python, build.GRPC_DRIVER, scenario, proxy.address, topic, group],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3_000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.mark.parametrize("consumer", ["push", "simple"])
def test_messages_go_through_the_proxy_and_back(cluster: Cluster, grpc: Run, consumer: str) -> None:
    """Plain, delayed and committed messages are received once; the acknowledgements count."""
    topic = admin.create_topic(cluster.broker_addr, unique(f"grpc_{consumer}"))
    group = admin.set_group(cluster.broker_addr, unique(f"G_grpc_{consumer}"), 16)
    for queue in range(4):
        admin.commit(cluster.broker_addr, topic, group, queue, 0)
    sent = grpc("send", topic, group)
    assert len(sent) == COUNT
    stored = read_topic(cluster.broker_addr, topic)
    assert {record.properties["TAGS"] for record in stored} == {"A"}
    received = grpc(consumer, topic, group)
    assert sorted(each["id"] for each in received) == sorted(each["id"] for each in sent)
    assert {each["tag"] for each in received} == {"A"}
    assert {"delayed", "committed"} < {each["body"] for each in received}
    if consumer == "simple":
        assert received[-1]["body"].startswith("plain"), "the hidden one comes last"
