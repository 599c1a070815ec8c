"""`epochmq broker`: the effective configuration, and one clear line for each fault."""

import os
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.shell import read_until, shell_in

from epochmq.admin.broker_command import IMPORTANT
from epochmq.admin.cli import cli
from epochmq.base.options import describe
from epochmq.broker.config.options import BrokerOptions


def broker(*args: str) -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["broker", *args])
    return ended.exit_code, ended.output


def test_printing_fills_in_what_is_left_open() -> None:
    code, shown = broker("-p", "--set", "listenPort=20911", "-n", "mq:9876")
    assert code == 0
    for line in ("listenPort=20911", "fastListenPort=20909", "haListenPort=20912"):
        assert line in shown.splitlines()
    assert "namesrvAddr=mq\\:9876" in shown or "namesrvAddr=mq:9876" in shown
    code, fewer = broker("-m")
    assert code == 0
    assert len(fewer.splitlines()) == len(IMPORTANT) < len(shown.splitlines())


def test_important_options_exist() -> None:
    assert set(IMPORTANT) <= {row.key for row in describe(BrokerOptions)}


def test_options_are_explained() -> None:
    code, shown = broker("--help-options")
    assert code == 0
    assert "flushDiskType" in shown


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["-c", "none.properties"], 2, "cannot read none.properties: No such file"),
        (["--set", "brokername=x"], 2, "unknown option 'brokername' (did you mean 'brokerName'?)"),
        (["--set", "listenPort=x"], 2, "option 'listenPort' must be a whole number, not 'x'"),
        (["--set", "storePathRootDir=/proc/1/x"], 1, "/proc/1/x"),
    ],
)
def test_faults_are_one_line(args: list[str], code: int, said: str, tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        ended = shell.run("broker", *args)
    assert ended[0] == code
    assert said in ended[2]
    assert len(ended[2].strip().splitlines()) == 1


def test_taken_ports_and_stores_are_named(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell, socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        code, _, said = shell.run("broker", "--set", f"listenPort={port}")
        assert code == 1
        assert f"it is taken by process {os.getpid()}" in said
        settings = ("--set", "listenPort=0", "--set", "fastListenPort=-1")
        running = shell.start("broker", *settings)
        read_until(running, "ready on 127.0.0.1:")
        code, _, said = shell.run("broker", *settings)
        assert code == 1
        assert "in use by another process" in said
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
