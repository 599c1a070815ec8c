"""Transactional messages with real processes: ours, Java's and the C++ client, kills, a failover.

Each message says by its number how it ends, so whatever is found can be judged by itself: what was
committed is there exactly once, what was rolled back never (INV-26).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .clients import CPP_EXTRAS, JAVA_5, OURS, Client
from .conftest import had
from .contract import unique
from .drivers.driver import Driver
from .peers import admin
from .peers.cluster import Cluster, Config
from .peers.epochmq import EpochCluster
from .peers.group import Group
from .peers.java import JavaCluster
from .peers.process import wait_until
from .peers.records import read_topic

QUICK = {
    "transactionTimeOut": 500,
    "transactionCheckInterval": 500,
    "transactionOpBatchInterval": 200,
}
COUNT = 6
CLIENTS = (OURS, JAVA_5, CPP_EXTRAS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with EpochCluster(broker_config=QUICK) as running:
        yield running


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with had(request.param.build) as started:
        yield started


def bodies(address: str, topic: str) -> list[str]:
    return sorted(record.text for record in read_topic(address, topic))


def new(cluster: Cluster) -> tuple[str, str]:
    """A topic and a producer group."""
    return admin.create_topic(cluster.broker_addr, unique("tx")), unique("PG")


@pytest.mark.parametrize("local", ["commit", "rollback"])
def test_an_end_at_once(cluster: Cluster, client: Driver, local: str) -> None:
    topic, group = new(cluster)
    outcome = client.run(
        "transact", cluster.namesrv_addr, topic,
        group=group, local=local, prefix="t", count=COUNT, linger_ms=1500,
    )  # fmt: skip
    assert [event["status"] for event in outcome.sent] == ["SEND_OK"] * COUNT
    asked = {event["body"] for event in outcome.events if event["event"] == "checked"}
    assert len(asked) < COUNT, "no end was heard"  # one may be asked about where all is slow
    expected = [f"t-{i}" for i in range(COUNT)] if local == "commit" else []
    wait_until(lambda: bodies(cluster.broker_addr, topic) == expected, 10, "ends carried out")


@pytest.mark.parametrize("check", ["commit", "rollback"])
def test_a_silent_one_is_asked(cluster: Cluster, client: Driver, check: str) -> None:
    topic, group = new(cluster)
    outcome = client.run(
        "transact", cluster.namesrv_addr, topic,
        group=group, local="unknown", check=check, prefix="s", count=2, wait_checks=2,
    )  # fmt: skip
    checked = [event for event in outcome.events if event["event"] == "checked"]
    assert {event["body"] for event in checked} == {"s-0", "s-1"}
    assert {event["id"] for event in checked} == {event["id"] for event in outcome.sent}
    expected = ["s-0", "s-1"] if check == "commit" else []
    wait_until(lambda: bodies(cluster.broker_addr, topic) == expected, 10, "ends carried out")
    commit_a_later_one(cluster, client, topic)
    assert bodies(cluster.broker_addr, topic) == ["m-0", *expected]


def commit_a_later_one(cluster: Cluster, client: Driver, topic: str) -> None:
    """m-0, of another group, which is asked about it: who waits for longer was looked at before."""
    client.run(
        "transact", cluster.namesrv_addr, topic,
        group=unique("PG"), local="unknown", check="commit", prefix="m", wait_checks=1,
    )  # fmt: skip
    wait_until(lambda: "m-0" in bodies(cluster.broker_addr, topic), 60, "a later one committed")


@pytest.mark.parametrize(
    ("killed", "client"),
    [(OURS, JAVA_5), (JAVA_5, CPP_EXTRAS), (CPP_EXTRAS, OURS)],
    indirect=["client"],
    ids=lambda client: client.name,
)
def test_a_producer_dies_and_another_of_its_group_answers(
    cluster: Cluster, killed: Client, client: Driver
) -> None:
    topic, group = new(cluster)
    with had(killed.build) as fresh:
        fresh.start(
            "transact", cluster.namesrv_addr, topic,
            group=group, local="unknown", prefix="d", linger_ms=600_000,
        )  # fmt: skip
        fresh.wait_event(lambda event: event["event"] == "sent", 30)
        fresh.kill9()
    commit_a_later_one(cluster, client, topic)
    assert bodies(cluster.broker_addr, topic) == ["m-0"], "nobody answered for the other"
    client.run(
        "transact", cluster.namesrv_addr, topic,
        group=group, send=False, check="commit", wait_checks=1,
    )  # fmt: skip
    wait_until(lambda: bodies(cluster.broker_addr, topic) == ["d-0", "m-0"], 10, "committed")


def test_kill_9_between_a_commit_and_its_op_message(tmp_path: Path) -> None:
    """The real message is in the log and nothing else says that it is committed."""
    config = {**QUICK, "transactionOpBatchInterval": 60_000}
    with OURS.build() as driver, EpochCluster(tmp_path, config) as cluster:
        topic, group = new(cluster)
        driver.run(
            "transact", cluster.namesrv_addr, topic,
            group=group, local="mixed", check="unknown", prefix="k", count=8,
        )  # fmt: skip
        cluster.kill9_broker()
        cluster.broker_config["transactionOpBatchInterval"] = 200
        cluster.start_broker()
        assert bodies(cluster.broker_addr, topic) == ["k-0", "k-4"]
        # Asked again: about those that were left open, and about no other.
        asked = driver.run(
            "transact", cluster.namesrv_addr, topic,
            group=group, send=False, check="mixed", wait_checks=4, linger_ms=1500,
        ).events  # fmt: skip
        expected = ["k-0", "k-2", "k-4", "k-6"]
        wait_until(lambda: bodies(cluster.broker_addr, topic) == expected, 10, "committed")
        assert {e["body"] for e in asked if e["event"] == "checked"} == {"k-2", "k-3", "k-6", "k-7"}


@pytest.mark.parametrize("kinds", [("java", "epochmq"), ("epochmq", "java")], ids="-to-".join)
def test_open_transactions_change_the_broker(kinds: tuple[str, str], tmp_path: Path) -> None:
    """One broker's store is opened by the other: what is over stays so, the rest is asked about."""
    first, second = kinds
    topic, group = unique("tx"), unique("PG")
    with OURS.build() as driver:
        with of(first, tmp_path, {**QUICK, "transactionCheckInterval": 600_000}) as cluster:
            admin.create_topic(cluster.broker_addr, topic)
            driver.run(
                "transact", cluster.namesrv_addr, topic,
                group=group, local="mixed", check="unknown", prefix="x", count=8, linger_ms=1500,
            )  # fmt: skip
            wait_until(lambda: bodies(cluster.broker_addr, topic) == ["x-0", "x-4"], 10, "ended")
            cluster.stop_broker()
        with of(second, tmp_path, QUICK) as cluster:
            driver.run(
                "transact", cluster.namesrv_addr, topic, within_s=90,
                group=group, send=False, check="mixed", wait_checks=4, linger_ms=3000,
            )  # fmt: skip
            expected = ["x-0", "x-2", "x-4", "x-6"]
            wait_until(lambda: bodies(cluster.broker_addr, topic) == expected, 10, "committed")


def of(kind: str, root: Path, config: Config) -> Cluster:
    if kind == "java":
        return had(lambda: JavaCluster(root, config))
    return EpochCluster(root, config)


def test_a_failover_commits_each_once(tmp_path: Path) -> None:
    """The master is killed while transactions of all kinds are open."""
    config = {**QUICK, "minInSyncReplicas": 2}
    stop = tmp_path / "stop"
    with Group(broker_config=config) as group, OURS.build() as driver:
        old = group.master()
        assert old is not None
        topic = admin.create_topic(old.address, "tx_failover")
        options = {"local": "mixed", "check": "mixed", "until": stop, "pause_ms": 5}
        driver.start("transact", group.namesrv_addr, topic, group="PG", linger_ms=20_000, **options)
        for _ in range(100):
            driver.wait_event(lambda event: event["event"] == "sent", 60)
        old.process.kill9()
        driver.skip()
        for _ in range(100):
            driver.wait_event(lambda event: event["event"] == "sent", 60)
        stop.touch()
        events = driver.finish(90).events
        master = group.master()
        assert master is not None
        assert master is not old
        found = Counter(record.text for record in read_topic(master.address, topic))
        acked = {e["body"] for e in events if e["event"] == "sent" and e["status"] == "SEND_OK"}
        assert [text for text in found if found[text] > 1] == []
        assert [text for text in found if number(text) % 2] == []
        lost = [text for text in acked if number(text) % 2 == 0 and text not in found]
        assert lost == []


def number(text: str) -> int:
    return int(text.rpartition("-")[2])
