"""`addBroker` and `removeBroker`; `tests/admin/test_container_command.py` has them at work."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.mqadmin.upstream import run_upstream
from tests.admin.shell import read_until, shell_in
from tests.admin.test_container_command import broker_file
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.ports import free_broker_port, free_port

from epochmq.admin.cli import cli


@pytest.mark.parametrize("identity", ["a", "c:a", "c:a:x", "c::0", "c:a:-1"])
def test_what_is_no_identity(identity: str) -> None:
    ended = CliRunner().invoke(cli, ["mqadmin", "removeBroker", "-c", "h:1", "-b", identity])
    assert ended.exit_code == 2
    assert "clusterName:brokerName:brokerId" in ended.output


@pytest.mark.compat
@pytest.mark.slow
def test_rocketmqs_own_tool_adds_and_removes(tmp_path: Path) -> None:
    own, names = free_port(), free_port()
    path = broker_file(tmp_path, "a", free_broker_port())
    where = f"127.0.0.1:{own}"
    add = ("addBroker", "-c", where, "-b", str(path))
    remove = ("removeBroker", "-c", where, "-b", "DefaultCluster:a:0")
    (tmp_path / "container.conf").write_text(f"listenPort={own}\nnamesrvAddr=127.0.0.1:{names}\n")
    with shell_in(tmp_path) as shell:
        read_until(shell.start("namesrv", "--set", f"listenPort={names}"), "ready on")
        read_until(shell.start("container", "-c", "container.conf"), "ready on")
        commands = [add, ("clusterList",), ("getBrokerConfig", "-b", where), remove]
        try:
            said = run_upstream(commands, f"127.0.0.1:{names}", tmp_path)
        except UnavailableError as missing:
            pytest.skip(f"RocketMQ's mqadmin cannot be had: {missing}")
    assert said[add].strip() == f"add broker to {where} success"
    assert "DefaultCluster" in said["clusterList",]
    assert "brokerConfigDirs" in said["getBrokerConfig", "-b", where]
    assert said[remove].strip() == f"remove broker from {where} success"
