"""`epochmq mqadmin` and upstream's `mqadmin` say the same of one controller-mode group."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .peers.group import JAVA, Group
from .peers.java import run_mqadmin

BROKER = "broker-a"
CLUSTER = "DefaultCluster"


@pytest.fixture(scope="module", params=[JAVA])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with Group(request.param, request.param, replicas=2) as running:
        yield running


def ours(group: Group, *args: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "epochmq", "mqadmin", *args],
        env={"NAMESRV_ADDR": group.namesrv_addr},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def lines(text: str) -> list[str]:
    """What is printed, without blanks; upstream's tool puts log lines before."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    first = next((n for n, line in enumerate(kept) if re.match(r"[#=]|update|clear", line)), 0)
    return kept[first:]


def same(group: Group, *args: str) -> list[str]:
    code, out, err = ours(group, *args)
    assert code == 0, err
    theirs = run_mqadmin(*args, namesrv=group.namesrv_addr)[1]
    # Upstream prints brokers and options in the order of a hash table.
    assert sorted(lines(out)) == sorted(lines(theirs))
    return lines(out)


def test_the_leader_is_shown(group: Group) -> None:
    said = same(group, "getControllerMetaData", "-a", group.controllers[1].address)
    leader = group.controller_leader()
    assert leader is not None
    assert f"#ControllerLeaderAddress\t{leader.address}" in said
    assert sum(line.startswith("#Peer:") for line in said) == 3


def test_sync_state_sets(group: Group) -> None:
    at = ("-a", group.controllers[0].address)
    by_name = same(group, "getSyncStateSet", *at, "-b", BROKER)
    assert "#SyncStateSetNums\t2" in by_name
    assert by_name == same(group, "getSyncStateSet", *at, "-c", CLUSTER)
    code, _, err = ours(group, "getSyncStateSet", *at)
    assert (code, "give one of -b" in err) == (2, True)


def test_epochs(group: Group) -> None:
    said = same(group, "getBrokerEpoch", "-b", BROKER)
    assert sum(line.startswith("#brokerAddr") for line in said) == 2
    assert any("EpochEntry{epoch=1, startOffset=0" in line for line in said)


def test_top(group: Group) -> None:
    """The live view, once, on the same group."""
    done = subprocess.run(
        [sys.executable, "-m", "epochmq", "top", "--once", "-o", "json"],
        env={"NAMESRV_ADDR": group.namesrv_addr},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(row["role"] for row in rows) == ["master", "slave"], done
    assert [(row["in_sync"], row["lag_bytes"]) for row in rows] == [(True, 0)] * 2


def test_options(group: Group) -> None:
    at = ("-a", group.controllers[2].address)
    same(group, "getControllerConfig", *at)
    change = ("-k", "notifyBrokerRoleChanged", "-v", "true")
    said = same(group, "updateControllerConfig", *at, *change)
    assert said[0] == f"update controller config success![{group.controllers[2].address}]"


def test_elect_a_named_master(group: Group) -> None:
    state = group.sync_state()
    assert state is not None
    other = 2 if state.master_id == 1 else 1
    args = ("-a", group.controllers[0].address, "-bn", BROKER, "-c", CLUSTER)
    code, out, err = ours(group, "electMaster", *args, "-b", str(other))
    assert code == 0, err
    elected = group.sync_state()
    assert elected is not None
    assert elected.master_id == other
    assert lines(out)[:4] == [
        f"#ClusterName\t{CLUSTER}",
        f"#BrokerName\t{BROKER}",
        f"#BrokerMasterAddr\t{elected.master_address}",
        f"#MasterEpoch\t{state.master_epoch + 1}",
    ]
    assert sum(line.startswith("\t#Broker") for line in lines(out)) == 2
    group.wait_ready()
    code, _, err = ours(group, "electMaster", *args, "-b", str(other))
    assert code != 0
    assert ours(group, "electMaster", *args, "-b", "x")[0] == 2


def test_living_replicas_are_not_forgotten(group: Group) -> None:
    args = ("-a", group.controllers[0].address, "-bn", BROKER, "-b", "2")
    code, _, err = ours(group, "cleanBrokerMetadata", *args, "-c", CLUSTER)
    assert code == 1, err
    assert ours(group, "cleanBrokerMetadata", *args)[0] == 2
