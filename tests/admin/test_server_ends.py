"""How servers end, or do not: SIGHUP, and starts that fail; what their log files say of it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attack.server import Server, running_broker, running_name_server

from epochmq.wire.codes import RequestCode

pytestmark = pytest.mark.process
USERS = {
    "initAuthenticationUser": '{"username":"admin","password":"s"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"s"}',
}


def fails(*args: str) -> tuple[int, str]:
    """A start that must fail: its exit code and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "epochmq", *args], capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stderr.decode()


def test_a_hangup_opens_the_log_file_again_and_ends_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        moved = tmp_path / "moved.log"
        broker.log_file.rename(moved)
        broker.child.send_signal(signal.SIGHUP)
        while not broker.log_file.exists():
            assert broker.send().code == 0  # awaits the process's next line
        assert broker.stop() == 0
        assert "stopping: SIGTERM" in broker.log_text()
        assert not (tmp_path / "store" / "abort").exists()


def test_a_hangup_ends_no_name_server(tmp_path: Path) -> None:
    with running_name_server(tmp_path) as server:
        server.child.send_signal(signal.SIGHUP)
        while "SIGHUP: log files are opened again" not in server.log_text():
            server.figures()
        assert server.stop() == 0


def test_the_audit_log_has_a_file_of_its_own(tmp_path: Path) -> None:
    file, moved = tmp_path / "audit.log", tmp_path / "moved.log"
    settings = {"auditLogFile": file, "authenticationEnabled": True, **USERS}
    create = {"topic": "t", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}

    def refused(broker: Server) -> None:
        with broker.line() as line:
            assert line.call(RequestCode.UPDATE_AND_CREATE_TOPIC, create).code == 16

    with running_broker(tmp_path, settings) as broker:
        refused(broker)
        while "request=UPDATE_AND_CREATE_TOPIC result=denied" not in file.read_text():
            refused(broker)
        assert " ready on " not in file.read_text()
        file.rename(moved)
        broker.child.send_signal(signal.SIGHUP)
        while not file.exists() or "result=denied" not in file.read_text():
            refused(broker)
        assert broker.stop() == 0


def test_a_port_that_is_taken_is_told_in_the_log_file(tmp_path: Path) -> None:
    log_file = tmp_path / "broker.log"
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        main, fast = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        code, said = fails(
            "broker",
            "--log-file",
            str(log_file),
            "--set",
            f"listenPort={main}",
            "--set",
            f"fastListenPort={fast}",
            "--set",
            f"storePathRootDir={tmp_path}/store",
        )
    assert code == 1
    assert said.count("cannot listen") == 1
    told = log_file.read_text()
    assert f"ERROR   epochmq: ended: cannot listen on 127.0.0.1:{fast}" in told
    assert "fastListenPort (0, the default, is listenPort - 2" in told


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("broker", "--set", "brokerNames=b"), "unknown option 'brokerNames'"),
        (("namesrv", "--set", "listenPort=none"), "listenPort"),
        (("controller", "--set", "nonsense"), "--set wants KEY=VALUE"),
    ],
)
def test_faulty_options_are_told_in_the_log_file(
    args: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    log_file = tmp_path / "server.log"
    code, said = fails(*args, "--log-file", str(log_file))
    assert (code, problem in said) == (2, True)
    assert problem in log_file.read_text()


def test_a_log_file_that_cannot_be_made_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = fails("broker", "--set", "x=1", "--log-file", f"{tmp_path}/file/none/a.log")
    assert (code, "unknown option" in said) == (2, True)
    assert os.listdir(tmp_path) == ["file"]
