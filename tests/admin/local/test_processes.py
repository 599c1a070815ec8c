"""Processes known by a file."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from epochmq.admin.local import processes

PATIENT = [
    sys.executable,
    "-c",
    "import signal; print('up', flush=True); signal.pause()",
]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]


def wait_log(log: Path, text: str) -> None:
    with subprocess.Popen(
        ["tail", "-n", "+1", "-f", str(log)], stdout=subprocess.PIPE, text=True
    ) as tail:
        assert tail.stdout is not None
        for line in tail.stdout:
            if text in line:
                break
        tail.kill()


def test_a_process_outlives_its_handle_and_stops(tmp_path: Path) -> None:
    pid_file, log = tmp_path / "x.pid", tmp_path / "logs" / "x.log"
    child = processes.start(PATIENT, log, pid_file)
    wait_log(log, "up")  # before, it may have no memory of its own yet
    assert processes.running(pid_file) == child
    assert processes.memory_bytes(child) > 0
    assert processes.cpu_seconds(child) >= 0
    assert 0 <= processes.age_s(child) < 30
    assert processes.stop(child)
    assert processes.running(pid_file) is None
    assert not processes.is_alive(child)
    assert processes.stop(child)  # once more is no error


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    child = processes.start(STUBBORN, log, tmp_path / "x.pid")
    wait_log(log, "up")
    assert not processes.wait_gone(child, 0.01)
    assert not processes.stop(child, 0.1)
    assert not processes.is_alive(child)


def test_the_same_number_is_not_the_same_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "x.pid"
    processes.remember(pid_file, os.getpid())
    assert processes.running(pid_file) == os.getpid()
    pid_file.write_text(pid_file.read_text().replace('"started": "', '"started": "9'))
    assert processes.running(pid_file) is None


@pytest.mark.parametrize("text", ["", "4711", "{}", '{"pid": "x", "started": ""}'])
def test_a_broken_file_tells_of_nobody(tmp_path: Path, text: str) -> None:
    pid_file = tmp_path / "x.pid"
    assert processes.running(pid_file) is None
    pid_file.write_text(text)
    assert processes.running(pid_file) is None


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(child.pid)
    child.wait()
    assert processes.memory_bytes(child.pid) == processes.cpu_seconds(child.pid) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_during_a_start_leaves_no_unknown_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Ctrl-C comes when the process runs already, and before its id is in the file."""
    popen = subprocess.Popen

    def interrupted(*args: Any, **more: Any) -> Any:
        child = popen(*args, **more)
        signal.raise_signal(number)
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    pid_file = tmp_path / "x.pid"
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            processes.start(PATIENT, tmp_path / "x.log", pid_file)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    child = processes.running(pid_file)
    assert child is not None
    processes.stop(child)


def test_a_process_may_be_started_by_any_thread(tmp_path: Path) -> None:
    """Only the main thread may set signal handlers."""
    pid_file = tmp_path / "x.pid"
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(processes.start, PATIENT, tmp_path / "x.log", pid_file).result()
    assert processes.running(pid_file) == child
    processes.stop(child)
