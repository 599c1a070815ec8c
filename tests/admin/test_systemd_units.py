"""The systemd units: systemd accepts them, and their commands tell it what they promise."""

import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest
from tests.admin.shell import shell_in

from epochmq.admin.cli import cli

UNITS = sorted((Path(__file__).parents[2] / "packaging" / "systemd").glob("*.service"))
COMMAND = "/opt/epochmq/bin/epochmq"


def settings(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def test_each_server_has_a_unit() -> None:
    assert [unit.name for unit in UNITS] == [
        "epochmq-broker@.service",
        "epochmq-controller@.service",
        "epochmq-namesrv.service",
        "epochmq-relay.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_unit_starts_a_command_that_exists(unit: Path) -> None:
    program, name, option, _ = shlex.split(settings(unit, "ExecStart")[0])
    assert program == COMMAND
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = {each for parameter in command.params for each in parameter.opts}
    assert option in options
    assert settings(unit, "Type") == ["notify"]
    assert settings(unit, "User") == ["epochmq"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    paths = []
    for unit in UNITS:
        copy = tmp_path / unit.name.replace("@", "@x")
        copy.write_text(unit.read_text().replace(COMMAND, sys.executable))
        paths.append(str(copy))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def goes_on(listener: socket.socket) -> bool:
    """Read until nothing arrives for a second; False when that happens, True after 50 messages."""
    listener.settimeout(1)
    try:
        for _ in range(50):
            listener.recv(1000)
    except TimeoutError:
        return False
    return True


def test_a_server_tells_systemd_that_it_is_ready_and_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(20)
        with shell_in(tmp_path) as shell:
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            monkeypatch.setenv("WATCHDOG_USEC", "100000")
            running = shell.start("namesrv", "--set", "listenPort=0")
            first = listener.recv(1000).decode()
            assert first.startswith("READY=1\nSTATUS=name server ready on ")
            assert listener.recv(1000) == b"WATCHDOG=1"
            running.send_signal(signal.SIGSTOP)  # a server that hangs: systemd would kill it
            assert not goes_on(listener)
            running.send_signal(signal.SIGCONT)
            listener.settimeout(20)
            assert listener.recv(1000) == b"WATCHDOG=1"
            running.send_signal(signal.SIGTERM)
            while (last := listener.recv(1000)) == b"WATCHDOG=1":
                pass
            assert last == b"STOPPING=1"
            assert running.wait(20) == 0
