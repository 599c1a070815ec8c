"""`exportConfigs`, `exportMetadata`, `exportMetrics`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.admin.world import OFFLINE, ONLINE, TOPIC, World

CLUSTER = "DefaultCluster"


def exported(world: World, directory: Path, command: str, *args: str) -> dict[str, Any]:
    ran = world.mqadmin(command, *args, "-f", str(directory))
    assert ran.code == 0, ran
    (line,) = ran.lines
    path = line.removeprefix("export ").removesuffix(" success")
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def test_options_and_numbers_of_servers(world: World, tmp_path: Path) -> None:
    found = exported(world, tmp_path / "new", "exportConfigs", "-c", CLUSTER)
    assert found["clusterScale"] == {
        "namesrvSize": 1,
        "masterBrokerSize": 1,
        "slaveBrokerSize": 0,
    }
    options = found["brokerConfigs"]["broker-a"]
    assert (options["brokerName"], options["flushDiskType"]) == ("broker-a", "ASYNC_FLUSH")
    assert "listenPort" not in options


def test_topics_and_groups_of_a_cluster(world: World, tmp_path: Path) -> None:
    found = exported(world, tmp_path, "exportMetadata", "-c", CLUSTER)
    assert found["topicConfigTable"][TOPIC]["writeQueueNums"] == 2
    assert found["subscriptionGroupTable"][OFFLINE]["groupName"] == OFFLINE
    assert found["exportTime"] > 1_700_000_000_000
    assert (
        not {"TBW102", "broker-a", CLUSTER, f"{CLUSTER}_REPLY_TOPIC"}
        & found["topicConfigTable"].keys()
    )
    assert not [name for name in found["topicConfigTable"] if name.startswith("%")]
    with world.member():
        pass  # its retry topic stays
    special = exported(world, tmp_path, "exportMetadata", "-c", CLUSTER, "-s", "-t")
    assert f"%RETRY%{ONLINE}" in special["topicConfigTable"]
    assert "subscriptionGroupTable" not in special


@pytest.mark.parametrize(
    ("letter", "table", "file"),
    [
        ("-t", "topicConfigTable", "topic.json"),
        ("-g", "subscriptionGroupTable", "subscriptionGroup.json"),
    ],
)
def test_of_one_broker(world: World, tmp_path: Path, letter: str, table: str, file: str) -> None:
    found = exported(world, tmp_path, "exportMetadata", "-b", world.broker, letter)
    assert found.keys() == {table}
    assert [each.name for each in tmp_path.iterdir()] == [file]


def test_rates_and_sizes(world: World, tmp_path: Path) -> None:
    found = exported(world, tmp_path, "exportMetrics", "-c", CLUSTER)
    of_broker = found["evaluateReport"]["broker-a"]
    assert of_broker["runtimeQuota"]["topicSize"] >= 1
    assert of_broker["runtimeVersion"]["rocketmqVersion"].startswith("V5")
    assert found["totalData"]["totalTps"].keys() == {
        "totalNormalInTps",
        "totalNormalOutTps",
        "totalTransInTps",
        "totalScheduleInTps",
    }


def test_without_a_place_the_file_is_the_users_alone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (line,) = world.mqadmin("exportConfigs", "-c", CLUSTER).lines
    path = Path(line.split()[1])
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert tmp_path in path.parents


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("exportMetadata",), 2),
        (("exportMetadata", "-b", "127.0.0.1:1"), 2),
        (("exportMetadata", "-c", "x", "-b", "y"), 2),
        (("exportConfigs", "-c", "nosuch"), 5),
        (("exportMetrics", "-c", "nosuch"), 5),
        (("exportConfigs", "-c", CLUSTER, "-f", "/proc/nowhere"), 1),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...], code: int) -> None:
    ran = world.mqadmin(*args)
    assert (ran.code, "Traceback" in ran.err) == (code, False), ran
