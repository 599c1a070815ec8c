"""Scrapes of processes with several servers: a controller in a name server, two brokers."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.admin.shell import Shell, read_until, shell_in
from tests.compat.peers.ports import free_broker_port, free_port

Samples = dict[str, list[dict[str, str]]]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as opened:
        yield opened


def scrape(port: int) -> Samples:
    """Return the labels of the samples by name; the parser refuses a text that is not valid."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} is there twice"
        for sample in family.samples:
            found.setdefault(sample.name, []).append(dict(sample.labels))
    return found


def settings(**values: object) -> list[str]:
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def test_a_controller_in_a_name_server(shell: Shell) -> None:
    port, scraped = free_port(), free_port()
    child = shell.start(
        "namesrv",
        *settings(
            listenPort=port,
            enableControllerInNamesrv="true",
            controllerDLegerGroup="g",
            controllerDLegerPeers=f"n0-127.0.0.1:{port}",
            controllerDLegerSelfId="n0",
            controllerStorePath=shell.directory / "controller",
            controllerBootstrap="true",
            metricsExporterType="PROM",
            metricsPromExporterPort=scraped,
            metricsLabel="env:test",
        ),
    )
    read_until(child, "ready on")
    found = scrape(scraped)
    assert found["epochmq_namesrv_topics"] == [
        {"env": "test", "node_type": "namesrv", "node_id": f"127.0.0.1:{port}"}
    ]
    assert found["role"] == [
        {"env": "test", "address": f"127.0.0.1:{port}", "group": "g", "peer_id": "n0"}
    ]


def test_brokers_in_one_container(shell: Shell) -> None:
    namesrv = free_port()
    read_until(shell.start("namesrv", *settings(listenPort=namesrv)), "ready on")
    scraped = {}
    for name in ("a", "b"):
        scraped[name] = free_port()
        values = {
            "brokerName": name,
            "brokerId": 0,
            "namesrvAddr": f"127.0.0.1:{namesrv}",
            "listenPort": free_broker_port(),
            "storePathRootDir": shell.directory / name,
            "mappedFileSizeCommitLog": 8 << 20,
            "metricsExporterType": "PROM",
            "metricsPromExporterPort": scraped[name],
        }
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        (shell.directory / f"{name}.properties").write_text(text)
    files = ":".join(str(shell.directory / f"{name}.properties") for name in scraped)
    container = shell.start("container", "-b", files, *settings(listenPort=free_port()))
    read_until(container, "ready on")
    for name, port in scraped.items():
        (labels,) = scrape(port)["rocketmq_topic_number"]
        assert labels["node_id"] == name
