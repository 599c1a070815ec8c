"""`epochmq chaos` on the cluster of a directory."""

import json
from pathlib import Path

import pytest
from tests.admin.shell import Shell, shell_in

from epochmq.admin.local import config_files, processes
from epochmq.admin.local.config_files import choose_anywhere


def states(shell: Shell) -> dict[str, str]:
    out = shell.run("dev", "status", "-o", "json")[1]
    return {row["server"]: row["state"] for row in map(json.loads, out.splitlines())}


def settle(shell: Shell) -> None:
    (shell.directory / ".epochmq").mkdir()
    config_files.write_missing(shell.directory / ".epochmq", choose_anywhere())


def test_paused_resumed_killed_and_started(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        shell.run("dev", "--detach", "--no-dashboard")
        code, _, said = shell.run("chaos", "pause", "master")
        assert (code, said.startswith("paused broker (127.0.0.1:")) == (0, True)
        pid = int(said.rpartition("process ")[2].rstrip(")\n"))
        assert "T" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        code, _, said = shell.run("chaos", "resume")
        assert (code, said.count("resumed ")) == (0, 1)
        assert "resumed broker (127.0.0.1:" in said
        assert "namesrv" in said
        assert "is not paused" in said
        assert shell.run("chaos", "kill", "broker")[0] == 0
        processes.wait_gone(pid, 10)
        assert states(shell) == {"namesrv": "running", "broker": "stopped"}
        code, _, said = shell.run("chaos", "kill", "broker")
        assert (code, "broker does not run" in said) == (5, True)
        assert shell.run("chaos", "start")[2].startswith("started broker (127.0.0.1:")
        assert states(shell) == {"namesrv": "running", "broker": "running"}


@pytest.mark.parametrize("role", ["mastre", "controller-leader"])
def test_what_there_is_none_of(tmp_path: Path, role: str) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        assert shell.run("chaos", "kill", "master")[0] == 3
        shell.run("dev", "--detach", "--no-dashboard")
        code, _, said = shell.run("chaos", "kill", role)
        assert code == 5
        assert "namesrv, broker, master" in said or "there is no controller-leader now" in said
