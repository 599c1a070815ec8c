"""Completion in a shell, by the installed command and a cluster that runs."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.admin.shell import shell_in

from epochmq import Message
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.client.sync import Producer, PullConsumer
from epochmq.testing import MiniCluster

UNREACHABLE = "127.0.0.1:9"


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with MiniCluster() as cluster:
        with Producer(cluster.namesrv, "P") as producer:
            for topic in ("orders", "orders-old", "refunds"):
                producer.send(Message(topic, b"x"), timeout_ms=10_000)
        with PullConsumer(cluster.namesrv, "billing") as consumer:
            for queue in consumer.queues("orders"):
                consumer.commit(queue, 0)
        yield cluster.namesrv


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("epochmq chaos kill ma", ["master"]),
        ("epochmq chaos pause controller-", ["controller-leader", "controller-follower"]),
        ("epochmq chaos kill broker", ["broker"]),
        ("epochmq chaos resume x", []),
        ("epochmq cluster config get flushDiskT", ["flushDiskType"]),
        ("epochmq cluster config set brokerPerm", ["brokerPermission="]),
        ("epochmq cluster config set listenPor", []),
    ],
)
def test_roles_and_options_are_completed(tmp_path: Path, line: str, some: list[str]) -> None:
    LocalCluster(tmp_path / ".epochmq").start(choose_anywhere())
    assert completed(tmp_path, line, UNREACHABLE) == some


def test_roles_are_completed_without_a_cluster(tmp_path: Path) -> None:
    assert completed(tmp_path, "epochmq chaos kill s", UNREACHABLE) == ["slave"]
    assert list(tmp_path.iterdir()) == []


def completed(directory: Path, line: str, namesrv: str) -> list[str]:
    """What the shell offers for the last word of `line`."""
    words = line.split(" ")
    env = {
        "_EPOCHMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "NAMESRV_ADDR": namesrv,
    }
    with shell_in(directory) as shell:
        _, out, err = shell.run(env=env)
    assert "Traceback" not in err
    return [each.removeprefix("plain,") for each in out.split()]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("epochmq consume o", ["orders", "orders-old"]),
        ("epochmq topic show r", ["refunds"]),
        ("epochmq topic delete orders orders-", ["orders-old"]),
        ("epochmq topic show ", ["orders", "orders-old", "refunds"]),
        ("epochmq topic create o", []),
        ("epochmq group reset-offset billing --topic o", ["orders", "orders-old"]),
        ("epochmq group show b", ["billing"]),
        ("epochmq consume orders --group b", ["billing"]),
        ("epochmq dlq show z", []),
    ],
)
def test_names_are_completed(tmp_path: Path, namesrv: str, line: str, names: list[str]) -> None:
    assert completed(tmp_path, line, namesrv) == names


def test_the_name_server_of_the_line_is_asked(tmp_path: Path, namesrv: str) -> None:
    line = f"epochmq topic show -n {namesrv} r"
    assert completed(tmp_path, line, UNREACHABLE) == ["refunds"]


def test_a_cluster_that_is_not_there_offers_nothing(tmp_path: Path) -> None:
    assert completed(tmp_path, "epochmq topic show r", UNREACHABLE) == []


def test_a_cluster_that_does_not_answer_offers_nothing(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        assert completed(tmp_path, "epochmq group show b", f"127.0.0.1:{port}") == []
