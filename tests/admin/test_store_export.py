"""`epochmq store export` from a real group of one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.compat.peers import admin as peer_admin
from tests.compat.peers.group import Group

from epochmq.admin.cli import cli
from epochmq.admin.shared import exits

pytestmark = pytest.mark.process


def test_a_log_is_copied_gone_on_with_and_named_in_one_line(tmp_path: Path) -> None:
    with Group(replicas=1) as group:
        master = group.master()
        assert master is not None
        peer_admin.create_topic(master.address, "t", 1)
        peer_admin.send(master.address, "t", bytes(2000))
        argv = ["store", "export", "broker-a", str(tmp_path / "copy"), "-n", group.namesrv_addr]
        said = CliRunner().invoke(cli, argv, catch_exceptions=False).output
        assert "holds the log of broker-a from 0 to " in said
        peer_admin.send(master.address, "t", bytes(2000))
        again = CliRunner().invoke(cli, [*argv, "-o", "json"], catch_exceptions=False).output
        found = json.loads(again)
        assert found["broker"] == "broker-a"
        assert 2000 < found["copied_bytes"] < 3000
        wrong = CliRunner().invoke(cli, [*argv[:2], "other", *argv[3:]])
        assert wrong.exit_code == exits.USAGE
        assert "holds the copy of broker broker-a, not of other" in wrong.output
