"""`epochmq controller`, and the one inside `epochmq namesrv`."""

import signal
from pathlib import Path

from click.testing import CliRunner
from tests.admin.shell import read_until, shell_in

from epochmq.admin.cli import cli
from epochmq.admin.controller_command import IMPORTANT
from epochmq.runtime.own_host import free_port


def settings(folder: Path, port: int) -> list[str]:
    pairs = {
        "controllerDLegerGroup": "g",
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": str(folder / "data"),
        "configStorePath": str(folder / "changed.properties"),
    }
    return [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]


def test_printing(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["controller", "-p", *settings(tmp_path, 9878)])
    assert shown.exit_code == 0, shown.output
    assert "controllerDLegerPeers=n0-127.0.0.1:9878" in shown.output.splitlines()
    fewer = CliRunner().invoke(cli, ["controller", "-m", *settings(tmp_path, 9878)]).output
    assert [line.partition("=")[0] for line in fewer.splitlines()] == list(IMPORTANT)
    assert "leaseMillis" in CliRunner().invoke(cli, ["controller", "--help-options"]).output


def test_every_fault_is_told() -> None:
    ended = CliRunner().invoke(cli, ["controller", "--set", "leaseMilis=1"])
    assert ended.exit_code == 2
    assert "did you mean 'leaseMillis'?" in ended.output


def test_it_runs_until_told_to_stop(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        log = tmp_path / "own.log"
        port = free_port("127.0.0.1")
        more = ["--set", f"controllerLogFile={log}"]
        running = shell.start("controller", *settings(tmp_path, port), *more)
        read_until(running, f"controller n0 ready on 127.0.0.1:{port}")
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
        assert "stopping: SIGTERM" in log.read_text()


def test_inside_a_name_server(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    given = [
        *settings(tmp_path, port),
        "--set",
        f"listenPort={port}",
        "--set",
        f"kvConfigPath={tmp_path / 'kv.json'}",
        "--set",
        "enableControllerInNamesrv=true",
    ]
    with shell_in(tmp_path) as shell:
        running = shell.start("namesrv", *given)
        read_until(running, f"name server ready on 127.0.0.1:{port}")
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
    assert (tmp_path / "data").is_dir()


def test_a_name_server_that_runs_none_does_not_look_at_its_options(tmp_path: Path) -> None:
    args = ["namesrv", "-p", "--set", "controllerDLegerGroup=g"]
    assert CliRunner().invoke(cli, args).exit_code == 0
    asked = CliRunner().invoke(cli, [*args, "--set", "enableControllerInNamesrv=true"])
    assert asked.exit_code == 2
    assert "controllerDLegerPeers' is missing" in asked.output
