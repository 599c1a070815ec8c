"""`epochmq relay`: options, errors, and a relay that runs until it is told to stop."""

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.shell import read_until, shell_in

from epochmq.admin.cli import cli
from epochmq.admin.relay_command import IMPORTANT
from epochmq.runtime.own_host import free_port


def settings(port: int) -> list[str]:
    return ["--set", f"relayGroups=broker-a:{port}", "--set", "namesrvAddr=127.0.0.1:1"]


def test_printing() -> None:
    shown = CliRunner().invoke(cli, ["relay", "-p", *settings(11911)])
    assert shown.exit_code == 0, shown.output
    assert "relayGroups=broker-a:11911" in shown.output.splitlines()
    fewer = CliRunner().invoke(cli, ["relay", "-m", *settings(11911)]).output
    assert [line.partition("=")[0] for line in fewer.splitlines()] == list(IMPORTANT)
    assert "holdTimeoutMillis" in CliRunner().invoke(cli, ["relay", "--help-options"]).output


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "option 'relayGroups' is missing"),
        (["--set", "relayGroup=a:1"], "did you mean 'relayGroups'?"),
        (["--set", "relayGroups=a:1"], "option 'namesrvAddr' is missing"),
    ],
)
def test_every_fault_is_told(given: list[str], told: str) -> None:
    ended = CliRunner().invoke(cli, ["relay", *given])
    assert ended.exit_code == 2
    assert told in ended.output
    assert "Traceback" not in ended.output


def test_it_runs_until_told_to_stop(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        port = free_port("127.0.0.1")
        log = tmp_path / "own.log"
        running = shell.start("relay", *settings(port), "--log-file", str(log))
        read_until(running, f"relay ready: broker-a at 127.0.0.1:{port}")
        code, _, errors = shell.run("relay", *settings(port))
        assert code == 1
        assert "relayGroups" in errors
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
        assert "stopping: SIGTERM" in log.read_text()
