"""`epochmq cluster drain` with two broker groups: producers leave one, consumers empty it."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.admin.shell import Shell, shell_in

from epochmq import Message
from epochmq.admin.cli import cli
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.admin.nouns import cluster_drain
from epochmq.admin.shared import exits
from epochmq.client.sync import Producer

pytestmark = pytest.mark.process


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as made:
        LocalCluster(tmp_path / ".epochmq").start(choose_anywhere(replicas=2, acting_groups=2))
        yield made


def rows(shell: Shell, *args: str) -> list[dict[str, Any]]:
    code, out, err = shell.run(*args, "-o", "json")
    assert code == exits.OK, err
    return [json.loads(line) for line in out.splitlines()]


def produce(shell: Shell, count: int) -> None:
    """Send messages one by one, to each queue of each broker group in turn."""
    namesrv = json.loads((shell.directory / ".epochmq" / "cluster.json").read_text())["namesrv"]
    with Producer(namesrv, "P") as producer:
        for number in range(count):
            producer.send(Message("orders", b"%d" % number), timeout_ms=10_000)


def stored(shell: Shell) -> dict[str, int]:
    """How many messages of the topic each broker group has."""
    found: dict[str, int] = {}
    for row in rows(shell, "topic", "stats", "orders"):
        found[row["broker"]] = found.get(row["broker"], 0) + row["max_offset"] - row["min_offset"]
    return found


@pytest.fixture
def run(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `epochmq cluster drain` in this process, where it waits for a shorter time."""
    namesrv = json.loads((shell.directory / ".epochmq" / "cluster.json").read_text())["namesrv"]
    monkeypatch.setattr(cluster_drain, "QUIET_S", 1.5)

    def drain(*args: str) -> Result:
        argv = ["cluster", "drain", *args, "-n", namesrv, "-o", "json"]
        return CliRunner().invoke(cli, argv)

    return drain


def test_a_group_is_drained_and_used_again(shell: Shell, run: Callable[..., Result]) -> None:
    rows(shell, "topic", "create", "orders", "--queues", "4")
    produce(shell, 40)
    before = stored(shell)
    assert len(before) == 2
    assert all(before.values())
    name, other = sorted(before)
    shell.run("consume", "orders", "-g", "workers", "--from", "first", "--exit", "--count", "1")
    done = run(name, "-y", "--timeout", "1")
    assert done.exit_code == exits.UNHEALTHY, done.output
    assert f"{name} is read-only now, but consumers have not read everything: workers (" in (
        done.output
    )
    produce(shell, 40)
    assert stored(shell) == {name: before[name], other: before[other] + 40}

    with ThreadPoolExecutor(1) as pool:
        draining = pool.submit(run, name, "-y", "--timeout", "60")
        time.sleep(3)
        assert not draining.done(), "it waits for the consumers"
        shell.run("consume", "orders", "-g", "workers", "--exit")
        done = draining.result(60)
    assert done.exit_code == exits.OK, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["broker"] for row in found] == [f"{name}:0", f"{name}:1"]
    assert {row["accepts"] for row in found} == {"no"}

    assert run(name, "--undo").exit_code == exits.OK
    until = time.monotonic() + 20
    while stored(shell)[name] == before[name]:  # the name server hears of it with a registration
        assert time.monotonic() < until
        produce(shell, 8)


def test_a_client_with_an_old_route_is_waited_for(shell: Shell, run: Callable[..., Result]) -> None:
    rows(shell, "topic", "create", "orders", "--queues", "4")
    namesrv = json.loads((shell.directory / ".epochmq" / "cluster.json").read_text())["namesrv"]
    with Producer(namesrv, "P") as producer:  # it asks for a new route after 30 s
        queue = next(q for q in producer.queues("orders") if q.broker_name == "broker-a")
        with ThreadPoolExecutor(1) as pool:
            draining = pool.submit(run, "broker-a", "-y", "--timeout", "6")
            while not draining.done():
                producer.send(Message("orders", b"late"), queue=queue)
                time.sleep(0.1)
    done = draining.result()
    assert done.exit_code == exits.UNHEALTHY
    assert "messages still come from clients that have not asked for a new route" in done.output


def test_producers_always_have_another_group(shell: Shell) -> None:
    code, _out, err = shell.run("cluster", "drain", "broker-x", "-y")
    assert code == exits.NOT_FOUND
    assert "there is no broker group 'broker-x'" in err
    assert shell.run("chaos", "kill", "master")[0] == exits.OK
    results = [shell.run("cluster", "drain", name, "-y") for name in ("broker-a", "broker-b")]
    said = " ".join(err for _code, _out, err in results)
    assert {code for code, _out, _err in results} <= {exits.USAGE, exits.NOT_REACHABLE}, said
    assert "is the only broker group of DefaultCluster with a master" in said
