"""`epochmq namesrv`."""

import signal
from pathlib import Path

from click.testing import CliRunner
from tests.admin.shell import read_until, shell_in

from epochmq.admin.cli import cli
from epochmq.admin.namesrv_command import IMPORTANT


def test_printing() -> None:
    shown = CliRunner().invoke(cli, ["namesrv", "-p", "--set", "listenPort=19876"])
    assert shown.exit_code == 0
    assert "listenPort=19876" in shown.output.splitlines()
    fewer = CliRunner().invoke(cli, ["namesrv", "-m"]).output
    assert [line.partition("=")[0] for line in fewer.splitlines()] == list(IMPORTANT)
    assert "kvConfigPath" in CliRunner().invoke(cli, ["namesrv", "--help-options"]).output


def test_a_typo_is_told() -> None:
    ended = CliRunner().invoke(cli, ["namesrv", "--set", "listenprot=1"])
    assert ended.exit_code == 2
    assert "did you mean 'listenPort'?" in ended.output


def test_it_runs_until_told_to_stop(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        log = tmp_path / "namesrv.log"
        running = shell.start("namesrv", "--set", "listenPort=0", "--log-file", str(log))
        read_until(running, "name server ready on 127.0.0.1:")
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert "stopping: SIGINT" in log.read_text()
