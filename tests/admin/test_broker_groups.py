"""`epochmq broker --groups N`: the settings of each group, and the processes."""

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.shell import read_until, shell_in

from epochmq.admin.broker_groups import check_ports, settings_of_group
from epochmq.admin.cli import cli
from epochmq.admin.local.config_files import choose_anywhere, is_free
from epochmq.base.errors import ConfigError
from epochmq.base.options import describe
from epochmq.broker.config.options import BrokerOptions, load_options


def loaded(**properties: str) -> tuple[BrokerOptions, dict[str, str]]:
    return load_options(properties, env={}), properties


def test_the_first_group_is_that_of_the_configuration() -> None:
    options, properties = loaded(brokerName="b", storePathRootDir="/data/s")
    assert settings_of_group(options, properties, 0, "host") == {}


def test_names_places_and_ports_of_the_others() -> None:
    options, properties = loaded(
        brokerName="b",
        storePathRootDir="/data/s",
        storePathCommitLog="/fast/log",
        auditLogFile="/logs/audit.log",
        listenPort="20911",
        healthListenPort="20915",
        groupAddress="10.0.0.9:11911",
    )
    assert settings_of_group(options, properties, 2, "host") == {
        "brokerName": "b-2",
        "storePathRootDir": "/data/s-2",
        "storePathCommitLog": "/fast/log-2",
        "auditLogFile": "/logs/audit.log-2",
        "listenPort": "20931",
        "healthListenPort": "20935",
        "groupAddress": "10.0.0.9:11931",
    }
    unnamed, none = loaded()
    assert settings_of_group(unnamed, none, 1, "host")["brokerName"] == "host-1"


def test_every_port_of_a_broker_differs() -> None:
    """A new option with a port must not lead two groups to one port."""
    ports = {
        row.key: str(30_000 + 11 * number)
        for number, row in enumerate(describe(BrokerOptions))
        if row.key.endswith("Port")
    }
    options, properties = loaded(**ports, metricsExporterType="PROM")
    own = settings_of_group(options, properties, 1, "host")
    assert {key: own.get(key) for key in ports} == {k: str(int(v) + 10) for k, v in ports.items()}


def test_every_path_of_a_broker_differs() -> None:
    """A new option with a path must not lead two groups to one file."""
    shared = {"tls.server.certPath", "tls.server.keyPath", "tls.server.trustCertPath"}
    shared |= {"authKeyFile", "plainAclPath"}  # all groups are made with one key, from one file
    shared |= {row.key for row in describe(BrokerOptions) if row.key.startswith("tls.client")}
    paths = {
        row.key: "/x/y"
        for row in describe(BrokerOptions)
        if row.unit == "path" and row.key not in shared
    }
    options, properties = loaded(**paths)
    found = settings_of_group(options, properties, 1, "host")
    assert {key for key in paths if found.get(key) != "/x/y-1"} == set()


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"listenPort": "0"}, "must not be 0"),
        ({"listenPort": "65530"}, "needs port 655"),
        ({"listenPort": "20911", "healthListenPort": "20921"}, "needs port 20921 twice"),
    ],
)
def test_ports_that_cannot_be_used(properties: dict[str, str], problem: str) -> None:
    options, _ = loaded(**properties)
    with pytest.raises(ConfigError, match=problem):
        check_ports(options, 2)
    ended = CliRunner().invoke(
        cli, ["broker", "--groups", "2", *(f"--set={k}={v}" for k, v in properties.items())]
    )
    assert ended.exit_code == 2
    assert problem in ended.output


def free_block() -> int:
    """A port, with the ports of two groups free around it."""
    while True:
        port = choose_anywhere().broker
        if all(is_free(port + by) for by in (-2, 0, 1, 8, 10, 11)):
            return port


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


def test_two_groups_run_and_one_that_dies_is_started_again(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        port = free_block()
        given = ["--set", f"listenPort={port}", "--set", f"storePathRootDir={tmp_path / 's'}"]
        given += ["--set", "brokerName=b", "--set", "mappedFileSizeCommitLog=8388608"]
        running = shell.start("broker", "--groups", "2", *given)
        ready = read_until(running, "ready on") + read_until(running, "ready on")
        assert f":{port}" in ready
        assert f":{port + 10}" in ready
        assert (tmp_path / "s-1" / "commitlog").is_dir()
        first, second = children_of(running.pid)
        os.kill(second, signal.SIGKILL)
        assert "ready on" in read_until(running, f":{port + 10}")
        assert first in children_of(running.pid)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        assert not Path(f"/proc/{first}").exists()


def test_a_group_that_cannot_start_ends_all(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        given = ["--set", f"listenPort={free_block()}", "--set", "storePathRootDir=/proc/1/x"]
        code, _, errors = shell.run("broker", "--groups", "2", *given)
    assert code == 1
    assert "/proc/1/x" in errors
    assert "Traceback" not in errors
