"""What systemd is told, by a socket that stands in for its own."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from epochmq.runtime.service_manager import ServiceManager, environment_of_child, serve_until
from epochmq.runtime.signals import StopSignal


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(5)
        yield made


def test_without_a_socket_nothing_is_sent() -> None:
    manager = ServiceManager({"WATCHDOG_USEC": "1000"}, 1)
    assert manager.watchdog_s is None
    manager.tell("READY=1")


def test_an_abstract_socket_is_used() -> None:
    name = f"epochmq-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as made:
        made.bind("\0" + name)
        made.settimeout(5)
        ServiceManager({"NOTIFY_SOCKET": "@" + name}, 1).tell("READY=1", "STATUS=x")
        assert made.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize(
    ("env", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_interval_of_the_watchdog(env: dict[str, str], seconds: float | None) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/x", **env}, 7).watchdog_s == seconds


def test_a_socket_that_is_gone_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "none")}, 1)
    manager.tell("READY=1")
    manager.tell("WATCHDOG=1")
    assert len(caplog.records) == 1
    assert "cannot tell systemd" in caplog.text


def test_a_socket_that_nobody_reads_does_not_block(listener: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": listener.getsockname()}, 1)
    for _ in range(10_000):
        manager.tell("WATCHDOG=1")


async def test_a_server_is_ready_alive_and_stopping(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", listener.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    stop = StopSignal()
    serving = asyncio.create_task(serve_until(stop, "broker a ready"))
    heard = [await asyncio.to_thread(listener.recv, 1000) for _ in range(4)]
    assert heard == [b"READY=1\nSTATUS=broker a ready"] + 3 * [b"WATCHDOG=1"]
    stop.ask("SIGTERM")
    assert await serving == "SIGTERM"
    while (last := listener.recv(1000)) == b"WATCHDOG=1":
        pass
    assert last == b"STOPPING=1"
    assert capsys.readouterr().out == "broker a ready\n"


def test_a_child_does_not_tell_systemd() -> None:
    env = {"HOME": "/h", "NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2"}
    assert environment_of_child(env) == {"HOME": "/h"}
