"""Recalled messages and transactions asked about again, by Java's own libraries (5.3).

`DefaultMQProducer.recallMessage` and `DefaultMQAdminExt.resumeCheckHalfMessage`; neither is a
command of its mqadmin.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .clients import OURS
from .conftest import had, make_cluster
from .contract import unique
from .drivers.mqadmin import MqAdmin
from .peers import admin
from .peers.cluster import Cluster
from .peers.process import wait_until
from .peers.records import Record, read_queue, read_topic

GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
DELAYS_MS = (3_000, 12_000, 48_000)
"""The next where the machine was too slow to recall in time."""
LATE = "timestamp invalid"
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "recallMessageEnable": True,
        "transactionTimeOut": 500,
        "transactionCheckInterval": 500,
        "transactionOpBatchInterval": 200,
        "transactionCheckMax": 1,
    }
    with make_cluster(config) as running:
        yield running


@pytest.fixture(scope="module")
def tool(cluster: Cluster) -> Iterator[MqAdmin]:
    with had(lambda: MqAdmin(cluster.namesrv_addr)) as running:
        yield running


def call(tool: MqAdmin, words: str) -> str:
    """What the library answered."""
    (answer,) = (line for line in tool.run(words).splitlines() if line.startswith("answer "))
    return answer.removeprefix("answer ")


def bodies(cluster: Cluster, topic: str) -> list[str]:
    return sorted(record.text for record in read_topic(cluster.broker_addr, topic))


def recall_one_of_two(cluster: Cluster, tool: MqAdmin, topic: str) -> tuple[int, str]:
    """The delay of a message that was taken back in time, and the handle of one sent after it."""
    namesrv = cluster.namesrv_addr
    for delay_ms in DELAYS_MS:
        words = f"sendTimed {namesrv} {topic}"
        key, handle = call(tool, f"{words} recalled-{delay_ms} {delay_ms}").split()
        _, due = call(tool, f"{words} due-{delay_ms} {delay_ms}").split()
        answer = call(tool, f"recallMessage {namesrv} {topic} {handle}")
        if answer == key:
            return delay_ms, due
        assert LATE in answer
    raise AssertionError("never in time")


def test_a_recalled_message_never_comes(cluster: Cluster, tool: MqAdmin) -> None:
    namesrv = cluster.namesrv_addr
    topic = admin.create_topic(cluster.broker_addr, unique("recall"))
    other = admin.create_topic(cluster.broker_addr, unique("recall"))
    _, handle = call(tool, f"sendTimed {namesrv} {topic} far 3600000").split()
    refused = call(tool, f"recallMessage {namesrv} {other} {handle}")
    assert "CODE: 604" in refused
    assert "topic not match" in refused

    delay_ms, due = recall_one_of_two(cluster, tool, topic)
    wait_until(lambda: f"due-{delay_ms}" in bodies(cluster, topic), WITHIN_S, "the other one")
    assert f"recalled-{delay_ms}" not in bodies(cluster, topic)  # its time was before
    late = call(tool, f"recallMessage {namesrv} {topic} {due}")
    assert "CODE: 604" in late
    assert LATE in late


def test_transactions_that_were_given_up_are_asked_about_again(
    cluster: Cluster, tool: MqAdmin
) -> None:
    topic, group = admin.create_topic(cluster.broker_addr, unique("resume")), unique("PG")

    def given_up() -> list[Record]:
        return read_queue(cluster.broker_addr, GIVEN_UP, 0)

    with OURS.build() as driver:
        driver.run(
            "transact", cluster.namesrv_addr, topic,
            group=group, local="unknown", check="unknown", prefix="g", count=2, wait_checks=2,
        )  # fmt: skip
        wait_until(lambda: len(given_up()) == 2, WITHIN_S, "both are given up")
        change = f"-b {cluster.broker_addr} -k transactionCheckMax -v 1000"
        assert "success" in tool.run(f"updateBrokerConfig {change}")
        first, second = given_up()
        for name in (first.properties["UNIQ_KEY"], offset_id(cluster, second)):
            words = f"resumeCheckHalfMessage {cluster.namesrv_addr} {GIVEN_UP} {name}"
            assert call(tool, words) == "true"
        driver.start(
            "transact", cluster.namesrv_addr, topic,
            group=group, send=False, check="commit", linger_ms=600_000,
        )  # fmt: skip
        wait_until(lambda: bodies(cluster, topic) == ["g-0", "g-1"], WITHIN_S, "committed")
    assert len(given_up()) == 2


def offset_id(cluster: Cluster, record: Record) -> str:
    """Address, port and place in the log."""
    return f"7F000001{cluster.broker_port:08X}{record.offset:016X}"
